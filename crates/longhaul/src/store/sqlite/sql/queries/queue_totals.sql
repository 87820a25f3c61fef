-- Counts pending and running jobs by queue over all tenants but outboxes, for the operator's metrics. Reads
-- only indexes that contain nothing else.
SELECT queue, sum(paused) AS paused, sum(pending) AS pending, sum(running) AS running
FROM (
    SELECT queue, 0 AS paused, count(*) AS pending, 0 AS running
    FROM jobs INDEXED BY jobs_pending
    WHERE status = 'pending' AND tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*)
    FROM jobs INDEXED BY jobs_leased
    WHERE status = 'running' AND tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT name, count(*), 0, 0 FROM paused_queues WHERE tenant_id < '~' GROUP BY name
)
GROUP BY queue
ORDER BY sum(pending) + sum(running) DESC, queue
LIMIT ?1
