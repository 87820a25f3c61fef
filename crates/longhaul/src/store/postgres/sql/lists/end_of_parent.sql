-- Finds the last job that a page of a job's children may examine; none if fewer are left. Reads only the index.
SELECT id FROM longhaul.jobs
WHERE tenant_id = $1::text AND id < $2::text AND parent_id = $4::text
ORDER BY id DESC
LIMIT 1 OFFSET $3::bigint
