-- Lists pending jobs, newest first: the rows of `ready` and `incoming`. Filters that are NULL match
-- everything.
SELECT place.id
FROM (
    SELECT tenant_id, id FROM longhaul.ready WHERE tenant_id = $1::text AND id < $2::text
    UNION ALL
    SELECT tenant_id, id FROM longhaul.incoming WHERE tenant_id = $1::text AND id < $2::text
) AS place
CROSS JOIN LATERAL (
    SELECT kind, queue, created_at, labels FROM longhaul.jobs
    WHERE tenant_id = place.tenant_id AND id = place.id
    LIMIT 1
) AS job
WHERE
    ($3::text IS NULL OR job.kind = $3::text)
    AND ($4::text IS NULL OR job.queue = $4::text)
    AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
    AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
ORDER BY place.id DESC
LIMIT $7::bigint
