-- Leases locked jobs to a replica: deletes their rows ($1, $2) from `ready` and inserts leases, those that jobs
-- have for themselves ($3 to $12) and those that they share ($13 to $18). Lanes ($19 to $22) record their use at most
-- every 30 s. $12 is as long as the arrays before it, or empty if no limit counts these jobs.
WITH dequeued AS (
    DELETE FROM longhaul.ready
    USING unnest($1::text[], $2::text[]) AS taken (ready_ctid, id)
    WHERE ready.ctid = taken.ready_ctid::tid AND ready.id = taken.id
),

active AS (
    UPDATE longhaul.lanes SET active_at = $24::bigint
    FROM unnest($19::text[], $20::text[], $21::text[], $22::integer[])
        AS lane (tenant_id, queue, kind, priority)
    WHERE
        lanes.tenant_id = lane.tenant_id AND lanes.queue = lane.queue AND lanes.kind = lane.kind
        AND lanes.priority = lane.priority AND lanes.active_at < $24::bigint - 30000
),

shared AS (
    INSERT INTO longhaul.shared_leases (
        tenant_id, queue, first_id, last_id, ids, code_version, replica, claimed_at, lease_until, claim
    )
    SELECT
        tenant_id, queue, first_id, last_id, ids, code_version, $23::text, $24::bigint, $25::bigint,
        $26::bigint
    FROM unnest($13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[])
        AS lease (tenant_id, queue, first_id, last_id, ids, code_version)
)

INSERT INTO longhaul.leases (
    tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, counted,
    replica, claimed_at, lease_until, claim
)
SELECT
    tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, counted,
    $23::text, $24::bigint, $25::bigint, $26::bigint
FROM unnest(
    $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::integer[], $9::bigint[],
    $10::text[], $11::text[], $12::text[]
) AS lease (
    tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, counted
)
