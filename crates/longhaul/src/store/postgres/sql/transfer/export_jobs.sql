-- Reads jobs with everything but their steps, to compare them with their copies.
SELECT job.*, full_job.fingerprint, full_job.input, full_job.result, full_job.history
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.entries
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
CROSS JOIN LATERAL (
    SELECT fingerprint, input, result, history FROM longhaul.jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS full_job
