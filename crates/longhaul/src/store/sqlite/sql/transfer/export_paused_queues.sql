-- All queues that are paused: few.
SELECT tenant_id, name FROM paused_queues
ORDER BY tenant_id, name
