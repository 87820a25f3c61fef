-- Lists jobs of one finished status, newest first, without scanning other jobs. Filters that are NULL
-- match everything.
SELECT finished.id FROM longhaul.finished
CROSS JOIN LATERAL (
    SELECT kind, queue, created_at, labels FROM longhaul.jobs
    WHERE tenant_id = finished.tenant_id AND id = finished.id
    LIMIT 1
) AS job
WHERE
    finished.tenant_id = $1::text AND finished.id < $2::text AND finished.id >= $8::text AND finished.status = $9::text
    AND ($3::text IS NULL OR job.kind = $3::text)
    AND ($4::text IS NULL OR job.queue = $4::text)
    AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
    AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
ORDER BY finished.id DESC
LIMIT $7::bigint
