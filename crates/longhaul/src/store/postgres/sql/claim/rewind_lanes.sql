-- Checks the ranges that cursors advanced over, and moves a cursor back to a job that was being enqueued
-- at that moment.
UPDATE longhaul.lanes SET due_at = missed.run_at
FROM (
    SELECT
        raised.*,
        (
            SELECT ready.run_at FROM longhaul.ready
            WHERE
                ready.tenant_id = raised.tenant_id AND ready.queue = raised.queue
                AND ready.kind = raised.kind AND ready.priority = raised.priority
                AND ready.run_at >= raised.from_at AND ready.run_at < raised.to_at
            ORDER BY ready.run_at
            LIMIT 1
        ) AS run_at
    FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::bigint[], $6::bigint[])
        AS raised (tenant_id, queue, kind, priority, from_at, to_at)
) AS missed
WHERE
    lanes.tenant_id = missed.tenant_id AND lanes.queue = missed.queue
    AND lanes.kind = missed.kind AND lanes.priority = missed.priority
    AND lanes.due_at > missed.run_at
RETURNING lanes.tenant_id
