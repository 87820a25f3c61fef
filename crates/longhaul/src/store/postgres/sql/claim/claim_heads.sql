-- The first due jobs of each lane that has some, locked and with all that their claim needs, the place in
-- line by its address in the table: as long as it is locked, it stays there. Lanes come
-- in the order of tenants and queues, those after $2 and $8 first, so that they take turns; who of these is
-- taken is decided outside. What another claim has locked is passed over, and so are the queues $6 and the
-- tenants $7, which limits hold back, and all queues but $9, if that is not null.
WITH lanes AS (
    SELECT
        tenant_id, queue, kind, priority, due_at,
        (tenant_id, queue) <= ($2::text, $8::text) AS served
    FROM longhaul.lanes AS lane
    WHERE
        kind = ANY($1::text[]) AND due_at <= $3::bigint AND due_at < 9223372036854775807
        AND queue <> ALL($6::text[]) AND tenant_id <> ALL($7::text[])
        AND ($9::text[] IS NULL OR queue = ANY($9::text[]))
        AND NOT EXISTS (
            SELECT FROM longhaul.paused_queues AS paused
            WHERE paused.tenant_id = lane.tenant_id AND paused.name = lane.queue
        )
    ORDER BY served, tenant_id, queue
    LIMIT $4::bigint
)

SELECT job.*, head.ready_ctid
FROM lanes
CROSS JOIN LATERAL (
    SELECT ctid::text AS ready_ctid, id
    FROM longhaul.ready
    WHERE
        tenant_id = lanes.tenant_id AND queue = lanes.queue AND kind = lanes.kind
        AND priority = lanes.priority AND run_at >= lanes.due_at AND run_at <= $3::bigint
    ORDER BY run_at, id
    LIMIT $5::bigint
    FOR UPDATE SKIP LOCKED
) AS head
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.unleased
    WHERE tenant_id = lanes.tenant_id AND id = head.id
    LIMIT 1
) AS job
ORDER BY lanes.served, lanes.tenant_id, lanes.queue
