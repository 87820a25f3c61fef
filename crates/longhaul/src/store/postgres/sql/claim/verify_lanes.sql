-- Checks every lane from its very beginning, for jobs that `rewind_lanes` would have found if its replica
-- had not died.
UPDATE longhaul.lanes SET due_at = missed.run_at
FROM (
    SELECT
        lane.tenant_id, lane.queue, lane.kind, lane.priority,
        (
            SELECT ready.run_at FROM longhaul.ready
            WHERE
                ready.tenant_id = lane.tenant_id AND ready.queue = lane.queue
                AND ready.kind = lane.kind AND ready.priority = lane.priority
                AND ready.run_at < lane.due_at
            ORDER BY ready.run_at
            LIMIT 1
        ) AS run_at
    FROM longhaul.lanes AS lane
) AS missed
WHERE
    lanes.tenant_id = missed.tenant_id AND lanes.queue = missed.queue
    AND lanes.kind = missed.kind AND lanes.priority = missed.priority
    AND lanes.due_at > missed.run_at
RETURNING lanes.tenant_id
