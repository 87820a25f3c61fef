-- Finds the last job that a page of jobs of every status may examine; none if fewer are left. Reads only the index.
SELECT id FROM longhaul.jobs
WHERE tenant_id = $1::text AND id < $2::text
ORDER BY id DESC
LIMIT 1 OFFSET $3::bigint
