-- More meters for a claim that has locked some already: out of the order of keys, and so without waiting.
SELECT flow.scope, flow.name, flow.running, flow.parts, flow.taken_at
FROM longhaul.flow
INNER JOIN unnest($1::text[], $2::text[]) AS wanted (scope, name) USING (scope, name)
FOR UPDATE OF flow SKIP LOCKED
