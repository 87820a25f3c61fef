-- Finishes a pending job, which was removed from its queue before. The WHERE clause contains the version, so
-- that a job that changed since it was read is left alone. $9 to $11 are added to the usage.
WITH finished AS (
    INSERT INTO longhaul.finished (
        version, epoch, started_at, completed_at, expires_at, cancel_requested_at, steps, attempt,
        tenant_id, status, id, code_version, progress, error
    )
    SELECT
        $4::bigint, epoch, started_at, $6::bigint, $7::bigint, $8::bigint, $11::bigint, attempt,
        tenant_id, $5::text, id, code_version, progress, $12::text
    FROM longhaul.jobs
    WHERE tenant_id = $1::text AND id = $2::text AND version = $3::bigint
    RETURNING id
),

metered AS (
    INSERT INTO longhaul.usage_deltas (
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
    )
    SELECT
        job.tenant_id, $6::bigint - $6::bigint % 3600000, job.kind, coalesce(job.key_id, ''),
        $9::boolean::integer, $10::bigint, CASE WHEN $9::boolean THEN job.payload_bytes ELSE 0 END,
        $11::bigint
    FROM longhaul.jobs AS job
    WHERE
        job.tenant_id = $1::text AND job.id = $2::text AND EXISTS (SELECT FROM finished)
        AND ($9::boolean OR $10::bigint > 0 OR $11::bigint > 0)
)

SELECT id FROM finished
