-- Creates a fork with the input, fingerprint, API key and webhook of the original job. The steps that it
-- begins with are metered with the original. Writes nothing if the id exists.
WITH forked AS (
    INSERT INTO longhaul.jobs (
        tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, charge,
        epoch, version, labels, fingerprint, created_at, run_at, timeout_ms, retention_completed_ms,
        retention_failed_ms, forked_from, input, key_id, webhook, metered_steps
    )
    SELECT
        tenant_id, $3::text, kind, queue, priority, 0, $4::integer, 0, true,
        0, 1, labels, fingerprint, $5::bigint, $5::bigint, timeout_ms, retention_completed_ms,
        retention_failed_ms, id, input, key_id, webhook,
        (
            SELECT count(*) FROM longhaul.steps AS step
            WHERE
                step.tenant_id = $1::text AND step.id = $2::text
                AND ($6::integer IS NULL OR step.position < $6::integer)
        )
    FROM longhaul.jobs
    WHERE tenant_id = $1::text AND id = $2::text
    ON CONFLICT DO NOTHING
    RETURNING id
),

shared AS (
    INSERT INTO longhaul.steps (
        tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
    )
    SELECT
        step.tenant_id, forked.id, step.name, step.position, step.output, step.alone, step.attempt,
        step.started_at, step.completed_at
    FROM forked
    INNER JOIN longhaul.steps AS step ON step.tenant_id = $1::text AND step.id = $2::text
    WHERE $6::integer IS NULL OR step.position < $6::integer
    ORDER BY step.seq
)

SELECT id FROM forked
