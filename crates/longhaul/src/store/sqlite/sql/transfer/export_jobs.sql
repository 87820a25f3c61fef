-- All jobs, page by page, in the order of their ids: a copy that was interrupted goes on by it.
SELECT tenant_id, id, seq FROM jobs
WHERE (tenant_id, id) > (?1, ?2)
ORDER BY tenant_id, id
LIMIT ?3
