-- Locks the first due jobs of each lane and returns what their submission wrote: the columns of a new job that
-- follow from nothing else, because each costs time for every job. Rows of `ready` are identified by ctid, which stays valid as long as the row is locked. Lanes are sorted by tenant and
-- queue, starting after $2 and $8, so that they are served round-robin; the caller selects among the rows.
-- Skips rows that another claim has locked, the queues $6 and the tenants $7, whose limits are exhausted,
-- and, if $9 is not null, all queues but $9. $10 to $14 are lanes with the due times up to which the caller
-- claimed their jobs just before: reading starts there instead of at the lane's cursor.
WITH lanes AS (
    SELECT
        tenant_id, queue, kind, priority, greatest(lane.due_at, claimed.run_at) AS due_at,
        (tenant_id, queue) <= ($2::text, $8::text) AS served
    FROM longhaul.lanes AS lane
    LEFT JOIN unnest($10::text[], $11::text[], $12::text[], $13::integer[], $14::bigint[])
        AS claimed (tenant_id, queue, kind, priority, run_at)
        USING (tenant_id, queue, kind, priority)
    WHERE
        kind = ANY($1::text[]) AND due_at <= $3::bigint AND due_at < 9223372036854775807
        AND queue <> ALL($6::text[]) AND tenant_id <> ALL($7::text[])
        AND ($9::text[] IS NULL OR queue = ANY($9::text[]))
        AND NOT EXISTS (
            SELECT FROM longhaul.paused_queues AS paused
            WHERE paused.tenant_id = lane.tenant_id AND paused.name = lane.queue
        )
        -- Lanes whose jobs were all claimed keep their cursors for a while, and would fill the limit.
        AND (
            SELECT ready.run_at FROM longhaul.ready
            WHERE
                ready.tenant_id = lane.tenant_id AND ready.queue = lane.queue
                AND ready.kind = lane.kind AND ready.priority = lane.priority
                AND ready.run_at >= greatest(lane.due_at, claimed.run_at) AND ready.run_at <= $3::bigint
            ORDER BY ready.run_at
            LIMIT 1
        ) IS NOT NULL
    ORDER BY served, tenant_id, queue
    LIMIT $4::bigint
)

SELECT
    job.tenant_id, job.id, job.kind, job.queue, job.priority, job.max_attempts, job.labels::text AS labels,
    job.idempotency_key, job.created_at, job.run_at, job.timeout_ms, job.parent_id, job.has_payload,
    job.retention_completed_ms, job.retention_failed_ms, job.key_id, job.payload_bytes, job.webhook,
    job.input, job.is_new, head.ready_ctid
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
    SELECT *, version = 1 AND epoch = 0 AND forked_from IS NULL AS is_new FROM longhaul.jobs
    WHERE tenant_id = lanes.tenant_id AND id = head.id
    LIMIT 1
) AS job
ORDER BY lanes.served, lanes.tenant_id, lanes.queue
