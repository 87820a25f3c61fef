-- Records a blob as deleted and destroys its key.
UPDATE blobs SET
    deleted_at = ?4, deleted_by = ?5, delete_at = NULL, wrapped_key = NULL,
    key_destroyed_at = CASE WHEN role <> 'folder' THEN coalesce(key_destroyed_at, ?4) END
WHERE tenant_id = ?1 AND id = ?2 AND path = ?3 AND deleted_at IS NULL
