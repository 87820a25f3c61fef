-- Inserts a job. Writes nothing if the id or idempotency key exists; the caller then reads the existing
-- job.
INSERT INTO jobs (
    tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, epoch, version, labels,
    idempotency_key, fingerprint, created_at, run_at, timeout_ms, retention_completed_ms,
    retention_failed_ms, forked_from, parent_id, has_payload, key_id, payload_bytes, metered_steps,
    webhook, input
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
    ?23, ?24, ?25, ?26
) ON CONFLICT DO NOTHING
