-- Counts pending jobs like `count_pending`, but of one queue.
SELECT count(*)
FROM (
    SELECT 1 FROM jobs INDEXED BY jobs_pending
    WHERE status = 'pending' AND tenant_id = ?1 AND queue = ?2
    LIMIT ?3
)
