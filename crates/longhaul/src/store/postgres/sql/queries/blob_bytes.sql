-- How much is stored for a tenant.
SELECT coalesce(sum(size), 0)::bigint FROM longhaul.blobs
WHERE tenant_id = $1::text AND deleted_at IS NULL AND role <> 'folder'
