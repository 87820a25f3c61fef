-- Ends attempts like `end_attempts`, for the usual case that all jobs are finished, no limit counts them
-- and the number of their steps is known.
WITH ended AS (
    DELETE FROM longhaul.leases AS lease
    USING unnest(
        $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
        $14::boolean[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::boolean[],
        $21::bigint[], $22::bigint[]
    ) AS done (
        tenant_id, id, held_epoch, held_version, epoch, version, status, attempt, run_at, started_at,
        completed_at, expires_at, cancel_requested_at, charge, progress, error, code_version, result,
        history, is_first, used_ms, used_steps
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS row_id FROM longhaul.leases
        WHERE tenant_id = done.tenant_id AND id = done.id
        LIMIT 1
    ) AS held
    WHERE
        lease.ctid = held.row_id
        AND lease.epoch = done.held_epoch AND lease.version = done.held_version
        AND NOT lease.stepped_elsewhere
    RETURNING done.*
),

saved AS (
    UPDATE longhaul.jobs AS job SET
        epoch = ended.epoch, version = ended.version, status = ended.status,
        attempt = ended.attempt, run_at = ended.run_at, started_at = ended.started_at,
        completed_at = ended.completed_at, expires_at = ended.expires_at,
        cancel_requested_at = ended.cancel_requested_at, charge = ended.charge,
        progress = ended.progress, error = ended.error, code_version = ended.code_version,
        result = ended.result, history = ended.history, run_ms = 0, metered = true,
        metered_steps = job.metered_steps + ended.used_steps
    FROM ended
    WHERE job.tenant_id = ended.tenant_id AND job.id = ended.id
    RETURNING
        job.tenant_id, job.kind, job.key_id, job.payload_bytes, ended.completed_at, ended.is_first,
        ended.used_ms, ended.used_steps
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
    WHERE is_first OR used_ms > 0 OR used_steps > 0
    GROUP BY 1, 2, 3, 4
),

at_rest AS (
    INSERT INTO longhaul.finished (tenant_id, status, id, expires_at)
    SELECT tenant_id, status, id, expires_at FROM ended
)

SELECT tenant_id, id, false FROM ended
