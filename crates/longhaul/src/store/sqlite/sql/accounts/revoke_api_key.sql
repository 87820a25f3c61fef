-- Revokes a key, unless it is revoked already.
UPDATE api_keys SET revoked_at = ?2, changed_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
