-- Ends attempts: deletes their leases, writes the final states of finished jobs to `finished`, and updates the
-- jobs that continue and inserts them into `ready`. The WHERE clause contains epoch and version, so that an
-- attempt that changed since it was read is left alone. Releases limit counters first and updates lanes after
-- that, in the same lock order as claims. $26 is true if steps were counted from memory, which is exact only
-- if no other process has stored steps.
WITH ended AS (
    DELETE FROM longhaul.leases AS lease
    USING unnest(
        $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
        $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
        $16::bigint[], $17::boolean[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[],
        $22::boolean[], $23::text[], $24::bigint[], $25::text[]
    ) AS done (
        tenant_id, id, held_epoch, held_version, version, status, expires_at, cancel_requested_at,
        progress, error, result, events, kind, key_id, payload_bytes, is_first, used_ms, used_steps,
        epoch, run_at, charge, history, run_ms, artifacts
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS row_id FROM longhaul.leases
        WHERE tenant_id = done.tenant_id AND id = done.id
        LIMIT 1
    ) AS held
    WHERE
        lease.ctid = held.row_id
        AND lease.epoch = done.held_epoch AND lease.version = done.held_version
        AND NOT ($26::boolean AND lease.stepped_elsewhere)
    RETURNING
        done.*, lease.claimed_at, lease.started_at, lease.attempt, lease.replica, lease.code_version,
        lease.queue, lease.counted
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
    WHERE status <> 'pending' AND (is_first OR used_ms > 0 OR used_steps > 0)
    GROUP BY tenant_id, kind, key_id
),

finished AS (
    INSERT INTO longhaul.finished (
        version, epoch, claimed_at, started_at, completed_at, expires_at, cancel_requested_at, steps,
        attempt, tenant_id, status, id, replica, code_version, progress, error, result, artifacts,
        events
    )
    SELECT
        version, epoch, claimed_at, started_at, $1::bigint, expires_at, cancel_requested_at,
        used_steps, attempt, tenant_id, status, id, replica, code_version, progress, error, result,
        artifacts, events
    FROM ended
    WHERE status <> 'pending'
),

requeued AS (
    UPDATE longhaul.jobs AS job SET
        epoch = ended.epoch, version = ended.version, attempt = ended.attempt, run_at = ended.run_at,
        started_at = ended.started_at, cancel_requested_at = ended.cancel_requested_at,
        charge = ended.charge, progress = ended.progress, error = ended.error,
        code_version = ended.code_version, history = ended.history, run_ms = ended.run_ms
    FROM ended
    WHERE job.tenant_id = ended.tenant_id AND job.id = ended.id AND ended.status = 'pending'
    RETURNING job.tenant_id, job.id, job.queue, job.kind, job.priority, job.run_at
),

meters AS (
    SELECT limit_counters.scope, limit_counters.name, counted.running
    FROM (
        SELECT
            scope,
            CASE scope
                WHEN 'kind' THEN ended.kind WHEN 'queue' THEN ended.queue ELSE ended.tenant_id
            END AS name,
            count(*) AS running
        FROM ended
        CROSS JOIN LATERAL unnest(string_to_array(ended.counted, ' ')) AS scope
        WHERE ended.counted IS NOT NULL
        GROUP BY 1, 2
    ) AS counted
    INNER JOIN longhaul.limit_counters USING (scope, name)
    ORDER BY limit_counters.scope, limit_counters.name
    FOR UPDATE OF limit_counters
),

given_back AS (
    UPDATE longhaul.limit_counters SET running = greatest(limit_counters.running - meters.running, 0)
    FROM meters
    WHERE limit_counters.scope = meters.scope AND limit_counters.name = meters.name
    RETURNING 1
),

enqueued AS (
    INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
    SELECT tenant_id, queue, kind, priority, run_at, id FROM requeued
    RETURNING tenant_id, queue, kind, priority, run_at
),

lowered_lanes AS (
    INSERT INTO longhaul.lanes (tenant_id, queue, kind, priority, due_at, active_at)
    SELECT due.tenant_id, due.queue, due.kind, due.priority, due.run_at, 0
    FROM (
        SELECT tenant_id, queue, kind, priority, min(run_at) AS run_at
        FROM enqueued
        GROUP BY tenant_id, queue, kind, priority
    ) AS due
    LEFT JOIN longhaul.lanes AS lane USING (tenant_id, queue, kind, priority)
    WHERE
        (lane.due_at IS NULL OR lane.due_at > due.run_at)
        AND (SELECT count(*) FROM given_back) >= 0
    ORDER BY due.tenant_id, due.queue, due.kind, due.priority
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = least(lanes.due_at, excluded.due_at)
)

SELECT tenant_id, id, counted IS NOT NULL FROM ended
