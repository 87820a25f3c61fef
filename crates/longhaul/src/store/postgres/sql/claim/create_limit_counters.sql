-- Creates counters for scopes that have none yet.
INSERT INTO longhaul.limit_counters (scope, name, running, parts)
SELECT scope, name, 0, 0
FROM unnest($1::text[], $2::text[]) AS new (scope, name)
ORDER BY scope, name
ON CONFLICT DO NOTHING
