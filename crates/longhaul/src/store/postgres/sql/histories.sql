-- What happened to jobs: until the last lease, and since.
SELECT job.tenant_id, job.id, job.history, lease.events
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.jobs AS job USING (tenant_id, id)
LEFT JOIN longhaul.leases AS lease USING (tenant_id, id)
