-- Lists all jobs page by page, by tenant and id, so that an interrupted copy can continue.
SELECT tenant_id, id, seq FROM jobs
WHERE (tenant_id, id) > (?1, ?2)
ORDER BY tenant_id, id
LIMIT ?3
