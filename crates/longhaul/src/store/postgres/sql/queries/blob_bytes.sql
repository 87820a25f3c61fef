-- Sums the sizes of a tenant's stored blobs.
SELECT coalesce(sum(size), 0)::bigint FROM longhaul.blobs
WHERE tenant_id = $1::text AND deleted_at IS NULL AND role <> 'folder'
