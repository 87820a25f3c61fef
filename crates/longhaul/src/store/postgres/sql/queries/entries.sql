-- Jobs as they stand, by their ids. The tenant is part of the key: another tenant's id answers exactly as
-- an unknown one.
SELECT job.*
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.entries
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
