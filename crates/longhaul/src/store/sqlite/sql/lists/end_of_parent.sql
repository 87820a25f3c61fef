-- Finds the last job that a page of a job's children may examine; none if fewer are left. Reads only the index.
SELECT id FROM jobs INDEXED BY jobs_of_parent
WHERE tenant_id = ?1 AND id < ?2 AND parent_id = ?4
ORDER BY id DESC
LIMIT 1 OFFSET ?3
