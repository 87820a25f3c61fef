-- Counts pending and running jobs by queue over all tenants but outboxes, and finds the oldest due one, for the
-- operator's metrics. Reads only tables and indexes that contain nothing else.
SELECT
    queue, sum(paused) AS paused, sum(pending) AS pending, sum(running) AS running, min(due_at) AS due_at
FROM (
    SELECT
        queue, 0 AS paused, count(*) AS pending, 0 AS running,
        min(CASE WHEN run_at <= ?2 THEN run_at END) AS due_at
    FROM ready INDEXED BY ready_by_queue
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), NULL FROM leases WHERE tenant_id < '~' GROUP BY queue
    UNION ALL
    SELECT name, count(*), 0, 0, NULL FROM paused_queues WHERE tenant_id < '~' GROUP BY name
)
GROUP BY queue
ORDER BY sum(pending) + sum(running) DESC, queue
LIMIT ?1
