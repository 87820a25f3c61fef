-- What is counted of scopes that have limits, without waiting for anybody: a look before the claim.
SELECT scope, name, running, parts, taken_at
FROM unnest($1::text[], $2::text[]) AS wanted (scope, name)
INNER JOIN longhaul.limit_counters USING (scope, name)
