-- Finds the last job that a page of pending jobs may examine; none if fewer are left.
SELECT id FROM ready
WHERE tenant_id = ?1 AND id < ?2
ORDER BY id DESC
LIMIT 1 OFFSET ?3
