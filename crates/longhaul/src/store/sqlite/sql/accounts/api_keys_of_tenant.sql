-- Lists a page of a tenant's API keys.
SELECT
    id, tenant_id, name, scopes, server_key, digest, created_at, expires_at, revoked_at, last_used_at,
    requests_per_s, rotated_from
FROM api_keys
WHERE tenant_id = ?3 AND id > ?1
ORDER BY id
LIMIT ?2
