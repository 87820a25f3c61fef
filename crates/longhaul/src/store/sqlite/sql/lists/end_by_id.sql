-- Finds the last job that a page of jobs of every status may examine; none if fewer are left. Reads only the index.
SELECT id FROM jobs INDEXED BY jobs_id
WHERE tenant_id = ?1 AND id < ?2
ORDER BY id DESC
LIMIT 1 OFFSET ?3
