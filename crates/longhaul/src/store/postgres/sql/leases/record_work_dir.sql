-- Records the work directory of a running attempt. Returns no row if the lease is lost.
INSERT INTO longhaul.blobs AS blob (
    tenant_id, id, path, role, name, content_type, size, stored_by, stored_at
)
SELECT tenant_id, id, $4::text, 'folder', '', '', 0, $5::text, $6::bigint
FROM longhaul.leases
WHERE tenant_id = $1::text AND id = $2::text AND epoch = $3::bigint
ON CONFLICT (tenant_id, id, path) DO UPDATE SET name = blob.name
RETURNING id
