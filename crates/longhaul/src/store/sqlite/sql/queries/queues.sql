-- Counts unfinished jobs by queue. Reads only tables and indexes that contain nothing else, so that the cost is
-- independent of the number of finished jobs.
SELECT
    queue, max(paused) AS paused, sum(pending) AS pending, sum(running) AS running,
    min(due_at) AS oldest_due_at
FROM (
    SELECT
        queue, 0 AS paused, count(*) AS pending, 0 AS running,
        min(iif(run_at <= ?2, run_at, NULL)) AS due_at
    FROM ready INDEXED BY ready_by_queue
    WHERE tenant_id = ?1
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), NULL FROM leases WHERE tenant_id = ?1 GROUP BY queue
    UNION ALL
    SELECT name, 1, 0, 0, NULL FROM paused_queues WHERE tenant_id = ?1
)
GROUP BY queue
ORDER BY queue
