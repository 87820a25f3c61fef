-- Counts what a claim took, in the claim's own transaction, which has the locks.
UPDATE longhaul.limit_counters SET running = now.running, parts = now.parts, taken_at = now.taken_at
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
    AS now (scope, name, running, parts, taken_at)
WHERE limit_counters.scope = now.scope AND limit_counters.name = now.name
