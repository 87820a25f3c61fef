-- Appends audit entries. A repeated entry changes nothing.
INSERT INTO longhaul.audit (id, at, tenant_id, actor, action, target, detail, request_id)
SELECT *
FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]
)
ON CONFLICT (id) DO NOTHING
