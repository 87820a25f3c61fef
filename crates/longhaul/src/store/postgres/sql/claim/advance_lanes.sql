-- Advances lane cursors to the first job, so that claims do not scan the dead rows of claimed jobs.
-- Cursors only move within the past, because a job that is being enqueued right now is due later. An empty
-- lane without recent claims is marked as empty, with the time, because `forget_lanes` deletes it an hour later; if
-- a job arrives at that very moment, `rewind_lanes` finds it.
WITH found AS (
    SELECT
        lane.*,
        (
            SELECT ready.run_at FROM longhaul.ready
            WHERE
                ready.tenant_id = lane.tenant_id AND ready.queue = lane.queue
                AND ready.kind = lane.kind AND ready.priority = lane.priority
                AND ready.run_at >= lane.due_at
            ORDER BY ready.run_at
            LIMIT 1
        ) AS first_at
    FROM longhaul.lanes AS lane
    WHERE lane.due_at < $1::bigint - 10000
),

raised AS (
    SELECT
        found.*,
        CASE
            WHEN first_at < $1::bigint - 5000 THEN first_at
            WHEN active_at >= $1::bigint - 60000 THEN $1::bigint - 5000
            ELSE coalesce(first_at, 9223372036854775807)
        END AS raised_to
    FROM found
)

UPDATE longhaul.lanes SET
    due_at = raised.raised_to,
    active_at = CASE WHEN raised.raised_to = 9223372036854775807 THEN $1::bigint ELSE lanes.active_at END
FROM raised
WHERE
    lanes.tenant_id = raised.tenant_id AND lanes.queue = raised.queue
    AND lanes.kind = raised.kind AND lanes.priority = raised.priority
    AND lanes.due_at = raised.due_at AND raised.raised_to > raised.due_at
RETURNING lanes.tenant_id, lanes.queue, lanes.kind, lanes.priority, raised.due_at, lanes.due_at
