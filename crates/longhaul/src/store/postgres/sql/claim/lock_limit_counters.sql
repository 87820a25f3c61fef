-- Locks the counters of the jobs that a claim is about to take. In key order, like every statement that
-- locks several counters, so that they cannot deadlock.
SELECT limit_counters.scope, limit_counters.name, limit_counters.running, limit_counters.parts, limit_counters.taken_at
FROM longhaul.limit_counters
INNER JOIN unnest($1::text[], $2::text[]) AS wanted (scope, name) USING (scope, name)
ORDER BY limit_counters.scope, limit_counters.name
FOR UPDATE OF limit_counters
