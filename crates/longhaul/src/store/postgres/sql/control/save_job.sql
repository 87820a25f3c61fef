-- Writes a job without a lease. The WHERE clause contains the version, so that a job that changed since it
-- was read is never overwritten. $15 to $17 are added to the usage if the job finishes.
WITH saved AS (
    UPDATE longhaul.jobs SET
        version = $4::bigint, status = $5::text, max_attempts = $6::integer,
        attempt_base = $7::integer, charge = $8::boolean, run_at = $9::bigint,
        completed_at = $10::bigint, expires_at = $11::bigint, cancel_requested_at = $12::bigint,
        error = $13::text, history = $14::text,
        run_ms = CASE WHEN $10::bigint IS NULL THEN run_ms ELSE 0 END,
        metered = metered OR $10::bigint IS NOT NULL,
        metered_steps = metered_steps + $17::bigint
    WHERE tenant_id = $1::text AND id = $2::text AND version = $3::bigint
    RETURNING
        tenant_id, status, id, expires_at, kind, key_id, payload_bytes, completed_at,
        $15::boolean AS is_first, $16::bigint AS used_ms, $17::bigint AS used_steps
),

metered AS (
    INSERT INTO longhaul.usage_deltas (
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
    )
    SELECT
        tenant_id, completed_at - completed_at % 3600000, kind, coalesce(key_id, ''),
        count(*) FILTER (WHERE is_first), sum(used_ms)::bigint,
        coalesce(sum(payload_bytes) FILTER (WHERE is_first), 0)::bigint, sum(used_steps)::bigint
    FROM saved
    WHERE completed_at IS NOT NULL AND (is_first OR used_ms > 0 OR used_steps > 0)
    GROUP BY 1, 2, 3, 4
),

at_rest AS (
    INSERT INTO longhaul.finished (tenant_id, status, id, expires_at)
    SELECT tenant_id, status, id, expires_at FROM saved WHERE status <> 'pending'
),

in_motion AS (
    DELETE FROM longhaul.finished
    USING saved
    WHERE
        finished.tenant_id = saved.tenant_id AND finished.id = saved.id
        AND finished.status IN ('waiting', 'completed', 'failed', 'cancelled')
        AND finished.status <> saved.status
)

SELECT id FROM saved
