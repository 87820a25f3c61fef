-- Writes the counters that a claim changed, in the claim's transaction, which has locked them.
UPDATE longhaul.limit_counters SET running = now.running, parts = now.parts, taken_at = now.taken_at
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
    AS now (scope, name, running, parts, taken_at)
WHERE limit_counters.scope = now.scope AND limit_counters.name = now.name
