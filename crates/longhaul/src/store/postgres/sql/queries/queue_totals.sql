-- Counts pending and running jobs by queue over all tenants but outboxes, and finds the oldest due one, for the
-- operator's metrics. Reads only tables that contain nothing else.
SELECT
    queue, sum(paused)::bigint, sum(pending)::bigint, sum(running)::bigint, min(due_at)
FROM (
    SELECT
        queue, 0 AS paused, count(*) AS pending, 0 AS running,
        min(run_at) FILTER (WHERE run_at <= $2::bigint) AS due_at
    FROM longhaul.ready
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, count(*), 0, NULL
    FROM longhaul.incoming
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), NULL
    FROM longhaul.leases
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), NULL
    FROM longhaul.shared_jobs
    WHERE tenant_id < '~'
    GROUP BY queue
    UNION ALL
    SELECT name, count(*), 0, 0, NULL
    FROM longhaul.paused_queues
    WHERE tenant_id < '~'
    GROUP BY name
) AS counts (queue, paused, pending, running, due_at)
GROUP BY queue
ORDER BY sum(pending) + sum(running) DESC, queue
LIMIT $1::bigint
