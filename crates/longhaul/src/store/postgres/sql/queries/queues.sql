-- Counts unfinished jobs by queue. Reads only tables and indexes that contain nothing else, so that the
-- cost is independent of the number of finished jobs.
SELECT
    queue, bool_or(paused), sum(pending)::bigint, sum(running)::bigint, min(due_at)
FROM (
    SELECT
        queue, false AS paused, count(*) AS pending, 0 AS running,
        min(run_at) FILTER (WHERE run_at <= $2::bigint) AS due_at
    FROM longhaul.ready
    WHERE tenant_id = $1::text
    GROUP BY queue
    UNION ALL
    SELECT queue, false, count(*), 0, min(run_at) FILTER (WHERE run_at <= $2::bigint)
    FROM longhaul.incoming
    WHERE tenant_id = $1::text
    GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, count(*), NULL
    FROM longhaul.leases
    WHERE tenant_id = $1::text
    GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, count(*), NULL
    FROM longhaul.shared_jobs
    WHERE tenant_id = $1::text
    GROUP BY queue
    UNION ALL
    SELECT name, true, 0, 0, NULL FROM longhaul.paused_queues WHERE tenant_id = $1::text
) AS counts (queue, paused, pending, running, due_at)
GROUP BY queue
ORDER BY queue
