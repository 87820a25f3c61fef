-- Sets a key's expiry, unless the key expires earlier.
UPDATE api_keys
SET expires_at = min(coalesce(expires_at, ?2), ?2), changed_at = ?3
WHERE id = ?1
