-- Reads a pending job with its input, for a claim. Columns are in the order of `job.sql`.
SELECT
    tenant_id, id, kind, queue, 'pending', NULL, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, NULL, NULL, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id,
    has_payload, NULL,
    attempt_base, charge, epoch, NULL, NULL, retention_completed_ms,
    retention_failed_ms, NULL, key_id, run_ms, payload_bytes, metered, metered_steps, webhook,
    seq, fingerprint, NULL, version, 0,
    coalesce(input, (SELECT inputs.input FROM inputs WHERE inputs.seq = jobs.seq))
FROM jobs
WHERE seq = ?1
