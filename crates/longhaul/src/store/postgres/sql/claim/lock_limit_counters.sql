-- The meters of what a claim is about to take. In the order of their keys, as all lock them who lock
-- several.
SELECT limit_counters.scope, limit_counters.name, limit_counters.running, limit_counters.parts, limit_counters.taken_at
FROM longhaul.limit_counters
INNER JOIN unnest($1::text[], $2::text[]) AS wanted (scope, name) USING (scope, name)
ORDER BY limit_counters.scope, limit_counters.name
FOR UPDATE OF limit_counters
