-- Reads jobs with everything but their steps, to compare them with their copies.
SELECT job.*, submission.fingerprint
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.records
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
CROSS JOIN LATERAL (
    SELECT fingerprint FROM longhaul.jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS submission
