-- Takes a pending job's place. No row: a claim was faster.
DELETE FROM longhaul.line
WHERE
    tenant_id = $1::text AND queue = $2::text AND kind = $3::text AND priority = $4::integer
    AND run_at = $5::bigint AND id = $6::text
RETURNING id
