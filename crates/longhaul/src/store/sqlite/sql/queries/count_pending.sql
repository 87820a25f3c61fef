-- Counts by an index that holds nothing else, and no further than asked: a submission waits for it.
SELECT count(*)
FROM (
    SELECT 1 FROM jobs INDEXED BY jobs_pending
    WHERE status = 'pending' AND tenant_id = ?1
    LIMIT ?2
)
