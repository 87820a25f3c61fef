-- Lists all paused queues page by page.
SELECT * FROM paused_queues
WHERE (tenant_id, name) > (?1, ?2)
ORDER BY tenant_id, name
LIMIT ?3
