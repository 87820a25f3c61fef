-- Lists running jobs, newest first: the rows of `leases`, and the jobs with shared leases. Filters that are NULL
-- match everything. Leases have their own order and limit, so that they are read by their index; there are few
-- jobs with shared leases.
SELECT running.id
FROM (
    (
        SELECT lease.id FROM longhaul.leases AS lease
        CROSS JOIN LATERAL (
            SELECT kind, queue, created_at, labels FROM longhaul.jobs
            WHERE tenant_id = lease.tenant_id AND id = lease.id
            LIMIT 1
        ) AS job
        WHERE
            lease.tenant_id = $1::text AND lease.id < $2::text AND lease.id >= $8::text
            AND ($3::text IS NULL OR job.kind = $3::text)
            AND ($4::text IS NULL OR job.queue = $4::text)
            AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
            AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
        ORDER BY lease.id DESC
        LIMIT $7::bigint
    )
    UNION ALL
    SELECT shared.id FROM longhaul.shared_jobs AS shared
    CROSS JOIN LATERAL (
        SELECT kind, queue, created_at, labels FROM longhaul.jobs
        WHERE tenant_id = shared.tenant_id AND id = shared.id
        LIMIT 1
    ) AS job
    WHERE
        shared.tenant_id = $1::text AND shared.id < $2::text AND shared.id >= $8::text
        AND ($3::text IS NULL OR job.kind = $3::text)
        AND ($4::text IS NULL OR job.queue = $4::text)
        AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
        AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
) AS running
ORDER BY running.id DESC
LIMIT $7::bigint
