-- Returns the due time of the first job that was not due yet at $1. Looks at every active lane, because any of them may have
-- it.
SELECT min(first.run_at)
FROM longhaul.lanes AS lane
CROSS JOIN LATERAL (
    SELECT ready.run_at FROM longhaul.ready
    WHERE
        ready.tenant_id = lane.tenant_id AND ready.queue = lane.queue AND ready.kind = lane.kind
        AND ready.priority = lane.priority
        AND ready.run_at >= lane.due_at AND ready.run_at > $1::bigint
    ORDER BY ready.run_at
    LIMIT 1
) AS first
WHERE
    lane.due_at < 9223372036854775807
    AND NOT EXISTS (
        SELECT FROM longhaul.paused_queues AS paused
        WHERE paused.tenant_id = lane.tenant_id AND paused.name = lane.queue
    )
