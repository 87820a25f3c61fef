-- Stores checkpoints under the leases that hold their jobs: nothing is written for a superseded epoch,
-- nor over a stored step. The share lock keeps a sweep from ending an attempt between the look and the
-- commit; a renewal does not wait for it.
WITH new AS (
    SELECT *
    FROM unnest(
        $1::text[], $2::text[], $3::bigint[], $4::text[], $5::integer[], $6::text[], $7::boolean[],
        $8::bigint[]
    ) WITH ORDINALITY AS new (
        tenant_id, id, epoch, name, position, output, alone, started_at, place
    )
),

held AS (
    SELECT lease.tenant_id, lease.id, lease.epoch, lease.attempt
    FROM longhaul.leases AS lease
    WHERE (lease.tenant_id, lease.id, lease.epoch) IN (SELECT tenant_id, id, epoch FROM new)
    ORDER BY lease.tenant_id, lease.id
    FOR KEY SHARE OF lease
),

stored AS (
    INSERT INTO longhaul.steps (
        tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
    )
    SELECT
        new.tenant_id, new.id, new.name, new.position, new.output, new.alone, held.attempt,
        new.started_at, $9::bigint
    FROM new
    INNER JOIN held USING (tenant_id, id, epoch)
    ORDER BY new.tenant_id, new.id, new.name, new.place
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, name
)

SELECT new.place, held.id IS NOT NULL AS held, stored.id IS NOT NULL AS stored
FROM new
LEFT JOIN held USING (tenant_id, id, epoch)
LEFT JOIN stored USING (tenant_id, id, name)
