-- Inserts one job, given as in `insert_jobs` by arrays of one element, and leases it at once, unless its queue is
-- paused or a due job of its tenant, of the kinds $22, comes first: then the job goes to `ready`. Writes nothing if
-- the id or idempotency key exists. Jobs of a tenant with many active lanes always go to `ready`, because each lane
-- costs a lookup.
WITH new AS (
    SELECT *
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::integer[], $7::text[],
        $8::text[], $9::bytea[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
        $14::bigint[], $15::text[], $16::text[], $17::text[], $18::boolean[], $19::text[],
        $20::bigint[], $21::text[]
    ) AS new (
        tenant_id, id, kind, queue, priority, max_attempts, labels, idempotency_key, fingerprint,
        created_at, run_at, timeout_ms, retention_completed_ms, retention_failed_ms, forked_from,
        parent_id, input, has_payload, key_id, payload_bytes, webhook
    )
),

accepted AS (
    INSERT INTO longhaul.jobs (
        tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, idempotency_key, fingerprint, created_at, run_at, timeout_ms,
        retention_completed_ms, retention_failed_ms, forked_from, parent_id, input, has_payload,
        key_id, payload_bytes, webhook
    )
    SELECT
        tenant_id, id, kind, queue, priority, 0, max_attempts, 0, true,
        0, 1, labels::jsonb, idempotency_key, fingerprint, created_at, run_at, timeout_ms,
        retention_completed_ms, retention_failed_ms, forked_from, parent_id, input, has_payload,
        key_id, payload_bytes, webhook
    FROM new
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, kind, queue, priority, run_at
),

lanes AS (
    SELECT tenant_id, queue, kind, priority, due_at
    FROM longhaul.lanes AS lane
    WHERE
        kind = ANY($22::text[]) AND tenant_id = ($1::text[])[1] AND due_at <= $23::bigint
        AND due_at < 9223372036854775807
        AND NOT EXISTS (
            SELECT FROM longhaul.paused_queues AS paused
            WHERE paused.tenant_id = lane.tenant_id AND paused.name = lane.queue
        )
    LIMIT 20
),

waiting AS (
    SELECT
        EXISTS (
            SELECT FROM longhaul.paused_queues
            WHERE tenant_id = ($1::text[])[1] AND name = ($4::text[])[1]
        )
        OR (SELECT count(*) FROM lanes) = 20
        OR EXISTS (
            SELECT FROM lanes
            CROSS JOIN LATERAL (
                SELECT FROM longhaul.ready
                WHERE
                    tenant_id = lanes.tenant_id AND queue = lanes.queue AND kind = lanes.kind
                    AND priority = lanes.priority AND run_at >= lanes.due_at AND run_at <= $23::bigint
                ORDER BY run_at, id
                LIMIT 1
            ) AS due
        ) AS comes_first
),

leased AS (
    INSERT INTO longhaul.leases (
        tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, replica,
        claimed_at, lease_until, claim
    )
    SELECT
        accepted.tenant_id, accepted.id, accepted.queue, $27::bigint, $28::bigint, $29::integer,
        $30::bigint, $31::text, $32::text, $24::text, $23::bigint, $25::bigint, $26::bigint
    FROM accepted
    CROSS JOIN waiting
    WHERE NOT waiting.comes_first
    RETURNING id
),

enqueued AS (
    INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
    SELECT tenant_id, queue, kind, priority, run_at, id
    FROM accepted
    CROSS JOIN waiting
    WHERE waiting.comes_first
    RETURNING tenant_id, queue, kind, priority, run_at
),

lowered_lanes AS (
    INSERT INTO longhaul.lanes (tenant_id, queue, kind, priority, due_at, active_at)
    SELECT due.tenant_id, due.queue, due.kind, due.priority, due.run_at, 0
    FROM enqueued AS due
    LEFT JOIN longhaul.lanes AS lane USING (tenant_id, queue, kind, priority)
    WHERE lane.due_at IS NULL OR lane.due_at > due.run_at
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = least(lanes.due_at, excluded.due_at)
)

SELECT EXISTS (SELECT FROM accepted) AS created, EXISTS (SELECT FROM leased) AS leased
