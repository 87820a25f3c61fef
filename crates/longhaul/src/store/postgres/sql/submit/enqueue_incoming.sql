-- Moves jobs that were submitted by SQL, and whose transactions have committed, into ready. Their due times
-- may be long past, before the beginnings of their lanes: each lane is lowered to them, and by a
-- millisecond if it begins early enough, so that whoever read it before and now wants to raise it finds it
-- changed and leaves it. Every replica does this: what another one has locked is left to it.
WITH arrived AS (
    SELECT tenant_id, id FROM longhaul.incoming
    ORDER BY tenant_id, id
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
),

moved AS (
    DELETE FROM longhaul.incoming AS arrival
    USING arrived
    WHERE arrival.tenant_id = arrived.tenant_id AND arrival.id = arrived.id
    RETURNING
        arrival.tenant_id, arrival.queue, arrival.kind, arrival.priority, arrival.run_at, arrival.id
),

in_line AS (
    INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
    SELECT tenant_id, queue, kind, priority, run_at, id FROM moved
),

told AS (
    INSERT INTO longhaul.lanes AS lane (tenant_id, queue, kind, priority, due_at, active_at)
    SELECT tenant_id, queue, kind, priority, min(run_at), 0
    FROM moved
    GROUP BY tenant_id, queue, kind, priority
    ORDER BY tenant_id, queue, kind, priority
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = least(lane.due_at - 1, excluded.due_at)
)

SELECT count(*) FROM moved
