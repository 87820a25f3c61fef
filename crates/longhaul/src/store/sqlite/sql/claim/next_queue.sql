-- Hops to a tenant's next queue with jobs of a kind in line: one seek, however many each has.
SELECT queue FROM jobs INDEXED BY jobs_ready_by_queue
WHERE rank IS NOT NULL AND kind = ?1 AND tenant_id = ?2 AND queue > ?3
ORDER BY queue
LIMIT 1
