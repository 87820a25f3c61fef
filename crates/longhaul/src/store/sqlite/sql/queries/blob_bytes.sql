-- Sums the sizes of a tenant's stored blobs.
SELECT coalesce(sum(size), 0) FROM blobs INDEXED BY blobs_left
WHERE tenant_id = ?1 AND deleted_at IS NULL AND role <> 'folder'
