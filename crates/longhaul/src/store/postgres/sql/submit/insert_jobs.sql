-- Inserts jobs into `jobs` and `ready` in one statement. Writes nothing for an existing id or idempotency
-- key; the caller then reads the existing job. Keys are inserted in order, so that two batches that share
-- some wait for each other instead of deadlocking. Lowers the cursor of a lane that is empty or whose jobs
-- are all due later; most batches find none.
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
    ORDER BY tenant_id, idempotency_key
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, queue, kind, priority, run_at, id
),

enqueued AS (
    INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
    SELECT tenant_id, queue, kind, priority, run_at, id FROM accepted
),

lowered_lanes AS (
    INSERT INTO longhaul.lanes (tenant_id, queue, kind, priority, due_at, active_at)
    SELECT due.tenant_id, due.queue, due.kind, due.priority, due.run_at, 0
    FROM (
        SELECT tenant_id, queue, kind, priority, min(run_at) AS run_at
        FROM accepted
        GROUP BY tenant_id, queue, kind, priority
    ) AS due
    LEFT JOIN longhaul.lanes AS lane USING (tenant_id, queue, kind, priority)
    WHERE lane.due_at IS NULL OR lane.due_at > due.run_at
    ORDER BY due.tenant_id, due.queue, due.kind, due.priority
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = least(lanes.due_at, excluded.due_at)
)

SELECT tenant_id, id FROM accepted
