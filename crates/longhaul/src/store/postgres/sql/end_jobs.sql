-- Ends jobs: `end_attempts` where none goes on and no limit counts any, which is most of them.
WITH ended AS (
    DELETE FROM longhaul.leases AS lease
    USING unnest(
        $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
        $14::boolean[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[]
    ) AS done (
        tenant_id, id, held_epoch, held_version, epoch, version, status, attempt, run_at, started_at,
        completed_at, expires_at, cancel_requested_at, charge, progress, error, code_version, result,
        history
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS place FROM longhaul.leases
        WHERE tenant_id = done.tenant_id AND id = done.id
        LIMIT 1
    ) AS held
    WHERE
        lease.ctid = held.place
        AND lease.epoch = done.held_epoch AND lease.version = done.held_version
    RETURNING done.*
),

saved AS (
    UPDATE longhaul.jobs AS job SET
        epoch = ended.epoch, version = ended.version, status = ended.status,
        attempt = ended.attempt, run_at = ended.run_at, started_at = ended.started_at,
        completed_at = ended.completed_at, expires_at = ended.expires_at,
        cancel_requested_at = ended.cancel_requested_at, charge = ended.charge,
        progress = ended.progress, error = ended.error, code_version = ended.code_version,
        result = ended.result, history = ended.history
    FROM ended
    WHERE job.tenant_id = ended.tenant_id AND job.id = ended.id
),

at_rest AS (
    INSERT INTO longhaul.settled (tenant_id, status, id, expires_at)
    SELECT tenant_id, status, id, expires_at FROM ended
)

SELECT tenant_id, id, false FROM ended
