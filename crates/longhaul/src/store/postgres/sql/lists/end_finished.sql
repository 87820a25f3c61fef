-- Finds the last job that a page of jobs of one finished status may examine; none if fewer are left. Reads only the
-- index.
SELECT id FROM longhaul.finished
WHERE tenant_id = $1::text AND id < $2::text AND status = $4::text
ORDER BY id DESC
LIMIT 1 OFFSET $3::bigint
