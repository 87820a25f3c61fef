-- The meters of what a claim is about to take. In the order of their keys, as all lock them who lock
-- several.
SELECT flow.scope, flow.name, flow.running, flow.parts, flow.taken_at
FROM longhaul.flow
INNER JOIN unnest($1::text[], $2::text[]) AS wanted (scope, name) USING (scope, name)
ORDER BY flow.scope, flow.name
FOR UPDATE OF flow
