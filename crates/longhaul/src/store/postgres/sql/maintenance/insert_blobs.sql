-- Records blobs of jobs. A repeated call, after a lost response, changes nothing.
INSERT INTO longhaul.blobs (
    tenant_id, id, path, role, name, content_type, size, digest, wrapped_key, stored_by, stored_at
)
SELECT *, $11::bigint
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
    $8::bytea[], $9::bytea[], $10::text[]
)
ON CONFLICT DO NOTHING
