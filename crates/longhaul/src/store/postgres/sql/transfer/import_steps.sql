-- Imports steps of imported jobs, in their order.
INSERT INTO longhaul.steps (
    tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
)
SELECT tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
FROM json_populate_recordset(NULL::longhaul.steps, $1::text::json) WITH ORDINALITY AS step
ORDER BY step.ordinality
