-- Imports tombstones.
INSERT INTO longhaul.tombstones (tenant_id, id, gone_at)
SELECT tenant_id, id, gone_at
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS gone (tenant_id, id, gone_at)
ON CONFLICT DO NOTHING
