-- Counts a tenant's pending jobs up to a limit, because a submission waits for it. Reads an index that
-- contains nothing else.
SELECT count(*)
FROM (
    SELECT 1 FROM ready INDEXED BY ready_by_queue
    WHERE tenant_id = ?1
    LIMIT ?2
)
