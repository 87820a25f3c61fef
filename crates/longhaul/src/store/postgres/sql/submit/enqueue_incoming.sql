-- Moves jobs submitted by SQL from `incoming` to `ready`, after their transactions have committed. Their
-- due times may be long past, before the cursors of their lanes, so each cursor is lowered to them, or
-- else by a millisecond: a concurrent `advance_lanes` then finds the cursor changed and leaves it alone.
-- Every replica runs this and skips rows that another one has locked.
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

enqueued AS (
    INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
    SELECT tenant_id, queue, kind, priority, run_at, id FROM moved
),

lowered_lanes AS (
    INSERT INTO longhaul.lanes AS lane (tenant_id, queue, kind, priority, due_at, active_at)
    SELECT tenant_id, queue, kind, priority, min(run_at), 0
    FROM moved
    GROUP BY tenant_id, queue, kind, priority
    ORDER BY tenant_id, queue, kind, priority
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = least(lane.due_at - 1, excluded.due_at)
)

SELECT count(*) FROM moved
