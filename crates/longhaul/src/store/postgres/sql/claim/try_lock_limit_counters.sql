-- Locks further counters for a claim that holds some already. Out of key order, and therefore without
-- waiting.
SELECT limit_counters.scope, limit_counters.name, limit_counters.running, limit_counters.parts, limit_counters.taken_at
FROM longhaul.limit_counters
INNER JOIN unnest($1::text[], $2::text[]) AS wanted (scope, name) USING (scope, name)
FOR UPDATE OF limit_counters SKIP LOCKED
