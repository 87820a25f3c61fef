-- Reads one API key.
SELECT
    id, tenant_id, name, scopes, server_key, digest, created_at, expires_at, revoked_at, last_used_at,
    requests_per_s, rotated_from
FROM api_keys
WHERE id = ?1
