-- Leases locked jobs to a replica: deletes their rows from `ready` and inserts their leases. Lanes record
-- their use at most every 30 s. $17 is as long as the other arrays, or empty if no limit counts these
-- jobs.
WITH taken AS (
    SELECT *
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::bigint[],
        $8::bigint[], $9::integer[], $10::bigint[], $11::text[], $12::text[],
        $17::text[]
    ) AS taken (
        tenant_id, queue, kind, priority, ready_ctid, id, epoch, version, attempt, started_at,
        code_version, progress, counted
    )
),

out_of_line AS (
    DELETE FROM longhaul.ready
    USING taken
    WHERE ready.ctid = taken.ready_ctid::tid AND ready.id = taken.id
),

active AS (
    UPDATE longhaul.lanes SET active_at = $14::bigint
    FROM (SELECT DISTINCT tenant_id, queue, kind, priority FROM taken) AS lane
    WHERE
        lanes.tenant_id = lane.tenant_id AND lanes.queue = lane.queue AND lanes.kind = lane.kind
        AND lanes.priority = lane.priority AND lanes.active_at < $14::bigint - 30000
)

INSERT INTO longhaul.leases (
    tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, replica,
    claimed_at, lease_until, claim, counted
)
SELECT
    tenant_id, id, queue, epoch, version, attempt, started_at, code_version, progress, $13::text,
    $14::bigint, $15::bigint, $16::bigint, counted
FROM taken
