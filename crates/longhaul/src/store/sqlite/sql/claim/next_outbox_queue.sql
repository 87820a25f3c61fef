-- Seeks the next queue of an outbox with ready jobs of a kind: one seek, regardless of the number of jobs.
SELECT tenant_id, queue FROM ready INDEXED BY ready_in_outboxes
WHERE rank IS NOT NULL AND tenant_id >= '~' AND kind = ?1 AND tenant_id = ?2 AND queue > ?3
ORDER BY queue
LIMIT 1
