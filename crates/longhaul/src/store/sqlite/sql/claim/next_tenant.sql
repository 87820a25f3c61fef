-- Seeks the next tenant with ready jobs of a kind: one seek, regardless of the number of jobs.
SELECT tenant_id FROM ready INDEXED BY ready_by_rank
WHERE rank IS NOT NULL AND kind = ?1 AND tenant_id > ?2
ORDER BY tenant_id
LIMIT 1
