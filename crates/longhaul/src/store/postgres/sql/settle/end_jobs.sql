-- Ends attempts like `end_attempts`, for the usual case that all jobs are finished, no limit counts them,
-- no event is announced and the number of their steps is known. Returns the number of ended attempts.
WITH ended AS (
    DELETE FROM longhaul.leases AS lease
    USING unnest(
        $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
        $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
        $16::bigint[], $17::boolean[], $18::bigint[], $19::bigint[]
    ) AS done (
        tenant_id, id, held_epoch, held_version, version, status, expires_at, cancel_requested_at,
        progress, error, result, events, kind, key_id, payload_bytes, is_first, used_ms, used_steps
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
    RETURNING
        done.*, lease.claimed_at, lease.started_at, lease.attempt, lease.replica, lease.code_version
),

metered AS (
    INSERT INTO longhaul.usage_deltas (
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
    )
    SELECT
        tenant_id, $1::bigint - $1::bigint % 3600000, kind, key_id,
        count(*) FILTER (WHERE is_first), sum(used_ms)::bigint,
        coalesce(sum(payload_bytes) FILTER (WHERE is_first), 0)::bigint, sum(used_steps)::bigint
    FROM ended
    WHERE is_first OR used_ms > 0 OR used_steps > 0
    GROUP BY tenant_id, kind, key_id
),

finished AS (
    INSERT INTO longhaul.finished (
        version, epoch, claimed_at, started_at, completed_at, expires_at, cancel_requested_at, steps,
        attempt, tenant_id, status, id, replica, code_version, progress, error, result, events
    )
    SELECT
        version, held_epoch, claimed_at, started_at, $1::bigint, expires_at, cancel_requested_at,
        used_steps, attempt, tenant_id, status, id, replica, code_version, progress, error, result,
        events
    FROM ended
)

SELECT count(*) FROM ended
