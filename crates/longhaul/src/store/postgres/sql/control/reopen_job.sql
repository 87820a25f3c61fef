-- Returns a job that finished with status $12 to its queue, with the state that its last attempt left. The WHERE clause contains the
-- version, so that a job that changed since it was read is never overwritten.
WITH was AS (
    DELETE FROM longhaul.finished
    WHERE
        tenant_id = $1::text AND status = $12::text AND id = $2::text AND version = $3::bigint
    RETURNING *
)

UPDATE longhaul.jobs AS job SET
    version = $4::bigint, epoch = was.epoch, attempt = was.attempt, max_attempts = $5::integer,
    attempt_base = $6::integer, charge = $7::boolean, run_at = $8::bigint,
    started_at = was.started_at, cancel_requested_at = $9::bigint, progress = was.progress,
    error = $10::text, code_version = was.code_version, history = $11::text, run_ms = 0,
    metered = true, metered_steps = job.metered_steps + was.steps
FROM was
WHERE job.tenant_id = was.tenant_id AND job.id = was.id
RETURNING job.id
