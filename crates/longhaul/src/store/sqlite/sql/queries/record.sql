-- Reads a job with its history and result in one statement, because clients read single jobs most often. Columns are in
-- the order in which `rows.rs` and `row.rs` read them.
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id,
    has_payload, artifacts,
    replica, claimed_at, settled_version, history, events, result
FROM records
WHERE tenant_id = ?1 AND id = ?2
