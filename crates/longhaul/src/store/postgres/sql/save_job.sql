-- Writes a job back that nobody holds. The version in the WHERE: a job that is not the one that was read is
-- never overwritten.
WITH saved AS (
    UPDATE longhaul.jobs SET
        version = $4::bigint, status = $5::text, max_attempts = $6::integer,
        attempt_base = $7::integer, charge = $8::boolean, run_at = $9::bigint,
        completed_at = $10::bigint, expires_at = $11::bigint, cancel_requested_at = $12::bigint,
        error = $13::text, history = $14::text
    WHERE tenant_id = $1::text AND id = $2::text AND version = $3::bigint
    RETURNING tenant_id, status, id, expires_at
),

at_rest AS (
    INSERT INTO longhaul.settled (tenant_id, status, id, expires_at)
    SELECT tenant_id, status, id, expires_at FROM saved WHERE status <> 'pending'
),

in_motion AS (
    DELETE FROM longhaul.settled
    USING saved
    WHERE
        settled.tenant_id = saved.tenant_id AND settled.id = saved.id
        AND settled.status IN ('waiting', 'completed', 'failed', 'cancelled')
        AND settled.status <> saved.status
)

SELECT id FROM saved
