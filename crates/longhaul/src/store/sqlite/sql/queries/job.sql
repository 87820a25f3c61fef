-- Reads a job. Columns are in the order in which `rows.rs` and `row.rs` read them: first the job's, then the store's
-- own. Every lookup of a job ends with this statement.
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id,
    has_payload, artifacts,
    attempt_base, charge, epoch, replica, lease_until, retention_completed_ms,
    retention_failed_ms, claimed_at, key_id, run_ms, payload_bytes, metered, metered_steps, webhook,
    seq, fingerprint, counted, settled_version, has_events
FROM records
WHERE seq = ?1
