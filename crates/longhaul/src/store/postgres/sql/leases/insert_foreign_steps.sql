-- Stores checkpoints like `insert_steps`, but of jobs that another process may have claimed. Marks their
-- leases, so that the claiming process does not rely on its own count of steps.
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

marked AS (
    UPDATE longhaul.leases AS lease SET stepped_elsewhere = true
    FROM held
    WHERE
        lease.tenant_id = held.tenant_id AND lease.id = held.id AND lease.epoch = held.epoch
        AND NOT lease.stepped_elsewhere
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
