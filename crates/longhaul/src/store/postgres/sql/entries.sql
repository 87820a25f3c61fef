-- Jobs as they stand, by their ids. The tenant is part of the key: another tenant's id answers exactly as
-- an unknown one.
SELECT job.*
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.entries AS job USING (tenant_id, id)
