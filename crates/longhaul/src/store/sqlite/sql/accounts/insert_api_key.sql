-- Inserts an API key, unless its id exists.
INSERT INTO api_keys (
    id, tenant_id, name, scopes, server_key, digest, created_at, expires_at, requests_per_s, rotated_from,
    changed_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?7)
ON CONFLICT (id) DO NOTHING
