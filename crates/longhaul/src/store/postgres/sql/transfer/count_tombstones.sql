-- How many of these ids are known as gone.
SELECT count(*)
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.tombstones USING (tenant_id, id)
