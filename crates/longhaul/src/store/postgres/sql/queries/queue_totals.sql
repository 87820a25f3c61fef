-- Counts pending and running jobs by queue over all tenants but outboxes, for the operator's metrics. Reads
-- only tables that contain nothing else.
SELECT
    queue, sum(paused)::bigint, sum(pending)::bigint, sum(running)::bigint
FROM (
    SELECT queue, 0 AS paused, count(*) AS pending, 0 AS running
    FROM longhaul.ready
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, count(*), 0
    FROM longhaul.incoming
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*)
    FROM longhaul.leases
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*)
    FROM longhaul.shared_jobs
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT name, count(*), 0, 0
    FROM longhaul.paused_queues
    WHERE tenant_id < '~'
    GROUP BY name
) AS counts (queue, paused, pending, running)
GROUP BY queue
ORDER BY sum(pending) + sum(running) DESC, queue
LIMIT $1::bigint
