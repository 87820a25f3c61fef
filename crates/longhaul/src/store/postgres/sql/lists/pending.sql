-- Lists pending jobs, newest first: the rows of `ready` and `incoming`. Filters that are NULL match
-- everything. Each table has its own order and limit, so that both are read by their indexes and merged;
-- otherwise all pending jobs would be sorted.
SELECT place.id
FROM (
    (
        SELECT ready.id
        FROM longhaul.ready
        CROSS JOIN LATERAL (
            SELECT kind, queue, created_at, labels FROM longhaul.jobs
            WHERE tenant_id = ready.tenant_id AND id = ready.id
            LIMIT 1
        ) AS job
        WHERE
            ready.tenant_id = $1::text AND ready.id < $2::text AND ready.id >= $8::text
            AND ($3::text IS NULL OR job.kind = $3::text)
            AND ($4::text IS NULL OR job.queue = $4::text)
            AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
            AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
        ORDER BY ready.id DESC
        LIMIT $7::bigint
    )
    UNION ALL
    (
        SELECT incoming.id
        FROM longhaul.incoming
        CROSS JOIN LATERAL (
            SELECT kind, queue, created_at, labels FROM longhaul.jobs
            WHERE tenant_id = incoming.tenant_id AND id = incoming.id
            LIMIT 1
        ) AS job
        WHERE
            incoming.tenant_id = $1::text AND incoming.id < $2::text AND incoming.id >= $8::text
            AND ($3::text IS NULL OR job.kind = $3::text)
            AND ($4::text IS NULL OR job.queue = $4::text)
            AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
            AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
        ORDER BY incoming.id DESC
        LIMIT $7::bigint
    )
) AS place
ORDER BY place.id DESC
LIMIT $7::bigint
