-- Hops to the next outbox with jobs of a kind in line, and its first queue: one seek, however many it has.
SELECT tenant_id, queue FROM jobs INDEXED BY jobs_ready_in_outboxes
WHERE rank IS NOT NULL AND tenant_id >= '~' AND kind = ?1 AND tenant_id > ?2
ORDER BY tenant_id, queue
LIMIT 1
