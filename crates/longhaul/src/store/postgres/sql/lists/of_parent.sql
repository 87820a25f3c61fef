-- Lists the children of a job, newest first, without scanning other jobs. Filters that are NULL match
-- everything.
SELECT job.id
FROM longhaul.jobs AS job
LEFT JOIN LATERAL (
    SELECT records.status FROM longhaul.records
    WHERE records.tenant_id = job.tenant_id AND records.id = job.id
    LIMIT 1
) AS found ON $10::text IS NOT NULL
WHERE
    job.tenant_id = $1::text AND job.id < $2::text AND job.id >= $8::text AND job.parent_id = $9::text
    AND ($10::text IS NULL OR found.status = $10::text)
    AND ($3::text IS NULL OR job.kind = $3::text)
    AND ($4::text IS NULL OR job.queue = $4::text)
    AND ($5::bigint IS NULL OR job.created_at >= $5::bigint)
    AND ($6::text IS NULL OR job.labels @> $6::text::jsonb)
ORDER BY job.id DESC
LIMIT $7::bigint
