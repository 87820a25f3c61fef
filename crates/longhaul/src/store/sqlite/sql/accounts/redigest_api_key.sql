-- Replaces a key's digest by one under another server key.
UPDATE api_keys SET server_key = ?2, digest = ?3 WHERE id = ?1
