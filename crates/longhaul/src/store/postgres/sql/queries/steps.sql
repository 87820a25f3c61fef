-- Lists steps in the order of the handler's calls; steps that ran concurrently may share a position.
SELECT tenant_id, id, name, position, output, alone, attempt, started_at, completed_at
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.steps USING (tenant_id, id)
ORDER BY tenant_id, id, position, completed_at, seq
