-- The job has ended: from here on nobody can read its payload, whatever becomes of the bytes.
UPDATE blobs SET wrapped_key = NULL, key_destroyed_at = ?3, delete_at = ?3
WHERE tenant_id = ?1 AND id = ?2 AND role = 'payload' AND wrapped_key IS NOT NULL
