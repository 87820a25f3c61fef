-- Deletes finished jobs past their retention, like `delete_job`. Every replica runs this and skips rows
-- that another one has locked. Locks both rows of a job, so that none is deleted that was resumed meanwhile. Deletes
-- fewer jobs than $2 if they have many steps: none after $3 rows.
WITH locked AS (
    SELECT job.tenant_id, finished.status, job.id, finished.expires_at, finished.steps
    FROM longhaul.finished
    INNER JOIN longhaul.jobs AS job USING (tenant_id, id)
    WHERE finished.expires_at <= $1::bigint
    ORDER BY finished.expires_at
    LIMIT $2::bigint
    FOR UPDATE OF job, finished SKIP LOCKED
),

expired AS (
    SELECT tenant_id, status, id
    FROM (
        SELECT *, sum(steps) OVER (ORDER BY expires_at, tenant_id, id) - steps AS rows_before FROM locked
    ) AS job
    WHERE rows_before < $3::bigint
),

gone AS (
    DELETE FROM longhaul.jobs AS job
    USING expired
    WHERE job.tenant_id = expired.tenant_id AND job.id = expired.id
),

states_gone AS (
    DELETE FROM longhaul.finished
    USING expired
    WHERE
        finished.tenant_id = expired.tenant_id AND finished.status = expired.status
        AND finished.id = expired.id
),

doomed AS (
    UPDATE longhaul.blobs AS blob SET
        wrapped_key = NULL,
        key_destroyed_at = CASE
            WHEN blob.role <> 'folder' THEN coalesce(blob.key_destroyed_at, $1::bigint)
        END,
        delete_at = CASE
            WHEN blob.role <> 'folder' AND blob.deleted_at IS NULL
                THEN coalesce(blob.delete_at, $1::bigint)
        END
    FROM expired
    WHERE blob.tenant_id = expired.tenant_id AND blob.id = expired.id
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
