-- Reads the counters of limited scopes without locking them, before the claim reads jobs.
SELECT scope, name, running, parts, taken_at
FROM unnest($1::text[], $2::text[]) AS wanted (scope, name)
INNER JOIN longhaul.limit_counters USING (scope, name)
