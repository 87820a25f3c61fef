-- Imports jobs from another store. Pending ones are inserted into `incoming`, like jobs submitted by SQL.
-- Jobs that exist here or were deleted here are left unchanged.
WITH new AS (
    SELECT * FROM json_populate_recordset(NULL::longhaul.jobs, $1::text::json) AS new
    WHERE NOT EXISTS (
        SELECT FROM longhaul.tombstones AS gone
        WHERE gone.tenant_id = new.tenant_id AND gone.id = new.id
    )
),

accepted AS (
    INSERT INTO longhaul.jobs (
        tenant_id, id, kind, queue, status, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, idempotency_key, fingerprint, created_at, run_at, started_at,
        completed_at, expires_at, cancel_requested_at, timeout_ms, retention_completed_ms,
        retention_failed_ms, progress, error, code_version, forked_from, parent_id, input, result,
        history, has_payload, artifacts, key_id, run_ms, payload_bytes, metered, metered_steps,
        webhook
    )
    SELECT
        tenant_id, id, kind, queue, status, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, idempotency_key, fingerprint, created_at, run_at, started_at,
        completed_at, expires_at, cancel_requested_at, timeout_ms, retention_completed_ms,
        retention_failed_ms, progress, error, code_version, forked_from, parent_id, input, result,
        history, has_payload, artifacts, key_id, run_ms, payload_bytes, metered, metered_steps,
        webhook
    FROM new
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, queue, kind, priority, run_at, expires_at, status
),

at_rest AS (
    INSERT INTO longhaul.finished (tenant_id, status, id, expires_at)
    SELECT tenant_id, status, id, expires_at FROM accepted WHERE status <> 'pending'
),

arrived AS (
    INSERT INTO longhaul.incoming (tenant_id, id, queue, kind, priority, run_at)
    SELECT tenant_id, id, queue, kind, priority, run_at FROM accepted WHERE status = 'pending'
)

SELECT tenant_id, id FROM accepted
