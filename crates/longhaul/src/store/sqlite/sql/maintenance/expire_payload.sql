-- Destroys the key of a finished job's payload, so that it is unreadable even before its bytes are
-- deleted.
UPDATE blobs SET wrapped_key = NULL, key_destroyed_at = ?3, delete_at = ?3
WHERE tenant_id = ?1 AND id = ?2 AND role = 'payload' AND wrapped_key IS NOT NULL
