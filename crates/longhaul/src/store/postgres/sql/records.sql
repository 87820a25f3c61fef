-- Jobs with all that there is to know of them but their inputs.
SELECT job.*, full_job.history, lease.events, full_job.result
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.entries AS job USING (tenant_id, id)
INNER JOIN longhaul.jobs AS full_job USING (tenant_id, id)
LEFT JOIN longhaul.leases AS lease USING (tenant_id, id)
