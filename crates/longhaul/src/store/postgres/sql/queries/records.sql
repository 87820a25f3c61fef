-- Reads complete jobs by id, with results and histories.
SELECT job.*
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.records
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
