-- Lists the ids of all jobs page by page.
SELECT tenant_id, id FROM jobs
WHERE (tenant_id, id) > (?1, ?2)
ORDER BY tenant_id, id
LIMIT ?3
