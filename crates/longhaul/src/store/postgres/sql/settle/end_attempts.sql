-- Ends attempts: deletes their leases, writes their state to `jobs`, and inserts the jobs that continue
-- into `ready`. The WHERE clause contains epoch and version, so that an attempt that changed since it was
-- read is left alone. Releases limit counters first and updates lanes after that, in the same lock order
-- as claims. $25 is true if steps were counted from memory, which is exact only if no other process has
-- stored steps.
WITH ended AS (
    DELETE FROM longhaul.leases AS lease
    USING unnest(
        $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
        $14::boolean[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::boolean[],
        $21::bigint[], $22::bigint[], $23::bigint[], $24::text[]
    ) AS done (
        tenant_id, id, held_epoch, held_version, epoch, version, status, attempt, run_at, started_at,
        completed_at, expires_at, cancel_requested_at, charge, progress, error, code_version, result,
        history, is_first, used_ms, used_steps, run_ms, artifacts
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS row_id FROM longhaul.leases
        WHERE tenant_id = done.tenant_id AND id = done.id
        LIMIT 1
    ) AS held
    WHERE
        lease.ctid = held.row_id
        AND lease.epoch = done.held_epoch AND lease.version = done.held_version
        AND NOT ($25::boolean AND lease.stepped_elsewhere)
    RETURNING done.*, lease.counted
),

saved AS (
    UPDATE longhaul.jobs AS job SET
        epoch = ended.epoch, version = ended.version, status = ended.status,
        attempt = ended.attempt, run_at = ended.run_at, started_at = ended.started_at,
        completed_at = ended.completed_at, expires_at = ended.expires_at,
        cancel_requested_at = ended.cancel_requested_at, charge = ended.charge,
        progress = ended.progress, error = ended.error, code_version = ended.code_version,
        result = ended.result, history = ended.history,
        artifacts = ended.artifacts, run_ms = ended.run_ms,
        metered = job.metered OR ended.completed_at IS NOT NULL,
        metered_steps = job.metered_steps + ended.used_steps
    FROM ended
    WHERE job.tenant_id = ended.tenant_id AND job.id = ended.id
    RETURNING
        job.tenant_id, job.id, job.queue, job.kind, job.priority, job.run_at, job.status,
        job.expires_at, ended.counted, job.key_id, job.payload_bytes, ended.completed_at,
        ended.is_first, ended.used_ms, ended.used_steps
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

meters AS (
    SELECT limit_counters.scope, limit_counters.name, counted.running
    FROM (
        SELECT
            scope,
            CASE scope
                WHEN 'kind' THEN saved.kind WHEN 'queue' THEN saved.queue ELSE saved.tenant_id
            END AS name,
            count(*) AS running
        FROM saved
        CROSS JOIN LATERAL unnest(string_to_array(saved.counted, ' ')) AS scope
        WHERE saved.counted IS NOT NULL
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
    SELECT tenant_id, queue, kind, priority, run_at, id FROM saved WHERE status = 'pending'
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
