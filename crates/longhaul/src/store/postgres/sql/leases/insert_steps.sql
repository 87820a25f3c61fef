-- Stores checkpoints of jobs with a current lease: writes nothing for a superseded epoch and overwrites no
-- stored step. The share lock keeps a rescue from ending the attempt between check and commit; a renewal
-- does not wait for it. A cancellation does: so it is either reported here, or not acknowledged yet.
WITH held AS (
    SELECT new.*, lease.attempt, lease.cancel_requested
    FROM unnest(
        $1::text[], $2::text[], $3::bigint[], $4::text[], $5::integer[], $6::text[], $7::boolean[],
        $8::bigint[]
    ) WITH ORDINALITY AS new (
        tenant_id, id, epoch, name, position, output, alone, started_at, place
    )
    CROSS JOIN LATERAL (
        SELECT held.attempt, held.cancel_requested_at IS NOT NULL AS cancel_requested
        FROM longhaul.leases AS held
        WHERE held.tenant_id = new.tenant_id AND held.id = new.id AND held.epoch = new.epoch
        FOR KEY SHARE
    ) AS lease
),

stored AS (
    INSERT INTO longhaul.steps (
        tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
    )
    SELECT tenant_id, id, name, position, output, alone, attempt, started_at, $9::bigint
    FROM held
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, name
)

SELECT place, cancel_requested, NULL AS tenant_id, NULL AS id, NULL AS name FROM held
UNION ALL
SELECT NULL, false, tenant_id, id, name FROM stored
