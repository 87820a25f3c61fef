-- Lists all paused queues, of which there are few.
SELECT tenant_id, name FROM paused_queues
ORDER BY tenant_id, name
