-- Finds the last job that a page of jobs of one finished status may examine; none if fewer are left. Reads only the
-- index.
SELECT id FROM finished INDEXED BY finished_by_status
WHERE tenant_id = ?1 AND id < ?2 AND status = ?4
ORDER BY id DESC
LIMIT 1 OFFSET ?3
