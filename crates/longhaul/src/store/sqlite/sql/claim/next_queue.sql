-- Seeks a tenant's next queue with ready jobs of a kind: one seek, regardless of the number of jobs.
SELECT queue FROM ready INDEXED BY ready_by_queue_and_rank
WHERE rank IS NOT NULL AND kind = ?1 AND tenant_id = ?2 AND queue > ?3
ORDER BY queue
LIMIT 1
