-- Counts pending jobs like `count_pending`, but of one queue.
SELECT count(*)
FROM (
    SELECT 1 FROM ready INDEXED BY ready_by_queue
    WHERE tenant_id = ?1 AND queue = ?2
    LIMIT ?3
)
