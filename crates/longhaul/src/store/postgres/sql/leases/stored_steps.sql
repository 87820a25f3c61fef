-- Reads the existing steps with the names of checkpoints that were not inserted.
SELECT step.tenant_id, step.id, step.name, step.output
FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (tenant_id, id, name)
INNER JOIN longhaul.steps AS step USING (tenant_id, id, name)
