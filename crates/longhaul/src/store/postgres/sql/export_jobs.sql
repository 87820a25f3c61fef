-- Jobs with all that belongs to them but their steps: what a copy of them is compared with.
SELECT job.*, full_job.fingerprint, full_job.input, full_job.result, full_job.history
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.entries AS job USING (tenant_id, id)
INNER JOIN longhaul.jobs AS full_job USING (tenant_id, id)
