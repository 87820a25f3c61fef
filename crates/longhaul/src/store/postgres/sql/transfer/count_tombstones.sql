-- Counts those of the given ids that have a tombstone.
SELECT count(*)
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.tombstones USING (tenant_id, id)
