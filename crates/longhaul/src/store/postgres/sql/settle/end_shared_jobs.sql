-- Ends first attempts with shared leases ($2, $3) whose jobs have finished: writes the final states of the jobs, each
-- with the number of its lease. The lock keeps the leases from being split before the commit. Writes nothing for a
-- lease that does not exist any more, and returns the numbers of the others. $10 to $14 are the usage of the jobs by
-- lease, kind and API key. $15 and $16 are shared leases whose jobs have all finished before.
WITH held AS (
    SELECT wanted.number, lease.*
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS wanted (tenant_id, last_id, number)
    CROSS JOIN LATERAL (
        SELECT tenant_id, claimed_at, replica, code_version FROM longhaul.shared_leases
        WHERE tenant_id = wanted.tenant_id AND last_id = wanted.last_id
        FOR KEY SHARE
    ) AS lease
),

finished AS (
    INSERT INTO longhaul.finished (
        version, epoch, claimed_at, started_at, completed_at, expires_at, steps, attempt, tenant_id, status,
        id, replica, code_version, error, result
    )
    SELECT
        3, 1, held.claimed_at, held.claimed_at, $1::bigint, done.expires_at, 0, 1, held.tenant_id, done.status,
        done.id, held.replica, held.code_version, done.error, done.result
    FROM unnest($4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[])
        AS done (number, id, status, expires_at, error, result)
    INNER JOIN held USING (number)
),

metered AS (
    INSERT INTO longhaul.usage_deltas (
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
    )
    SELECT
        held.tenant_id, $1::bigint - $1::bigint % 3600000, used.kind, used.key_id, sum(used.jobs)::bigint,
        sum(used.run_ms)::bigint, 0, 0
    FROM unnest($10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bigint[])
        AS used (number, kind, key_id, jobs, run_ms)
    INNER JOIN held USING (number)
    GROUP BY held.tenant_id, used.kind, used.key_id
),

ended AS (
    DELETE FROM longhaul.shared_leases AS lease
    USING unnest($15::text[], $16::text[]) AS ended (tenant_id, last_id)
    WHERE lease.tenant_id = ended.tenant_id AND lease.last_id = ended.last_id
)

SELECT number FROM held
