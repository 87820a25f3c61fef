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
        tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, idempotency_key, fingerprint, created_at, run_at, started_at,
        cancel_requested_at, timeout_ms, retention_completed_ms, retention_failed_ms, progress, error,
        code_version, forked_from, parent_id, input, history, has_payload, key_id, run_ms,
        payload_bytes, metered, metered_steps, webhook
    )
    SELECT
        tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, idempotency_key, fingerprint, created_at, run_at, started_at,
        cancel_requested_at, timeout_ms, retention_completed_ms, retention_failed_ms, progress, error,
        code_version, forked_from, parent_id, input, history, has_payload, key_id, run_ms,
        payload_bytes, metered, metered_steps, webhook
    FROM new
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, queue, kind, priority, run_at
),

-- With no further events: the history in `jobs` is complete.
finished AS (
    INSERT INTO longhaul.finished (
        version, epoch, started_at, completed_at, expires_at, cancel_requested_at, steps, attempt,
        tenant_id, status, id, code_version, progress, error, result, artifacts, events
    )
    SELECT
        imported.version, imported.epoch, imported.started_at, imported.completed_at, imported.expires_at,
        imported.cancel_requested_at, 0, imported.attempt, imported.tenant_id, imported.status, imported.id,
        imported.code_version, imported.progress, imported.error, imported.result, imported.artifacts, ''
    FROM json_populate_recordset(NULL::longhaul.finished, $1::text::json) AS imported
    INNER JOIN accepted USING (tenant_id, id)
    WHERE imported.status <> 'pending'
    RETURNING tenant_id, id
),

arrived AS (
    INSERT INTO longhaul.incoming (tenant_id, id, queue, kind, priority, run_at)
    SELECT tenant_id, id, queue, kind, priority, run_at
    FROM accepted
    WHERE NOT EXISTS (
        SELECT FROM finished WHERE finished.tenant_id = accepted.tenant_id AND finished.id = accepted.id
    )
)

SELECT tenant_id, id FROM accepted
