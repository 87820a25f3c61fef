-- Reads jobs by id. The tenant is part of the key, so that another tenant's id gives the same result as an
-- unknown one.
SELECT job.*
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.entries
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
