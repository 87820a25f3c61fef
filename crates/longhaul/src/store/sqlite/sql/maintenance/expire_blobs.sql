-- Destroys the keys of a deleted job's blobs and schedules their deletion.
UPDATE blobs SET
    wrapped_key = NULL,
    key_destroyed_at = CASE WHEN role <> 'folder' THEN coalesce(key_destroyed_at, ?3) END,
    delete_at = CASE WHEN role <> 'folder' AND deleted_at IS NULL THEN coalesce(delete_at, ?3) END
WHERE tenant_id = ?1 AND id = ?2
