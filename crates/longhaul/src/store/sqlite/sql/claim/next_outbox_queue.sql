-- Hops to the next queue of an outbox with jobs of a kind in line: one seek, however many each has.
SELECT tenant_id, queue FROM jobs INDEXED BY jobs_ready_in_outboxes
WHERE rank IS NOT NULL AND tenant_id >= '~' AND kind = ?1 AND tenant_id = ?2 AND queue > ?3
ORDER BY queue
LIMIT 1
