-- Deletes lanes that have been empty since $1, and counts those with jobs or recent claims. A submission that read a lane
-- before it was marked as empty has ended long ago, and one that finds it marked writes it again.
WITH idle AS (
    SELECT tenant_id, queue, kind, priority
    FROM longhaul.lanes
    WHERE due_at = 9223372036854775807 AND active_at < $1::bigint
    ORDER BY tenant_id, queue, kind, priority
    LIMIT 10000
    FOR UPDATE SKIP LOCKED
),

forgotten AS (
    DELETE FROM longhaul.lanes AS lane
    USING idle
    WHERE
        lane.tenant_id = idle.tenant_id AND lane.queue = idle.queue
        AND lane.kind = idle.kind AND lane.priority = idle.priority
)

SELECT count(*) FROM longhaul.lanes
WHERE due_at < 9223372036854775807
