-- Moves the beginning of lanes up to their first job, so that claims do not walk over what is gone. Only
-- over times that have passed: a job that is being put in line right now is due later than that. A lane
-- that nobody claims from any more and that is empty is marked so; should a job arrive in that very moment,
-- `lower_lanes` finds it.
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

UPDATE longhaul.lanes SET due_at = raised.raised_to
FROM raised
WHERE
    lanes.tenant_id = raised.tenant_id AND lanes.queue = raised.queue
    AND lanes.kind = raised.kind AND lanes.priority = raised.priority
    AND lanes.due_at = raised.due_at AND raised.raised_to > raised.due_at
RETURNING lanes.tenant_id, lanes.queue, lanes.kind, lanes.priority, raised.due_at, lanes.due_at
