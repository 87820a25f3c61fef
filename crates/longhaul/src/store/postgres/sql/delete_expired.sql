-- Deletes finished jobs that are kept no longer, as `delete_job` does. Every replica does this: what
-- another one has locked is left to it.
WITH expired AS (
    SELECT tenant_id, id FROM longhaul.jobs
    WHERE expires_at <= $1::bigint
    ORDER BY expires_at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM longhaul.jobs AS job
    USING expired
    WHERE job.tenant_id = expired.tenant_id AND job.id = expired.id
),

steps_gone AS (
    DELETE FROM longhaul.steps AS step
    USING expired
    WHERE step.tenant_id = expired.tenant_id AND step.id = expired.id
)

INSERT INTO longhaul.tombstones (tenant_id, id, gone_at)
SELECT tenant_id, id, $1::bigint FROM expired
ON CONFLICT (tenant_id, id) DO UPDATE SET gone_at = excluded.gone_at
RETURNING id
