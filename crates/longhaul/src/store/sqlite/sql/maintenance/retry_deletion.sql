-- Records a failed deletion. The next attempt is due after `?4`, which doubles with every failure up to
-- `?5`.
UPDATE blobs SET
    failures = failures + 1, failure = ?7,
    delete_at = ?6 + min(?4 << min(failures, 20), ?5)
WHERE tenant_id = ?1 AND id = ?2 AND path = ?3 AND deleted_at IS NULL
