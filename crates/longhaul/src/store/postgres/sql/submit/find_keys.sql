-- Finds the jobs with these idempotency keys.
SELECT wanted.tenant_id, wanted.idempotency_key, job.id
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, idempotency_key)
CROSS JOIN LATERAL (
    SELECT id FROM longhaul.jobs
    WHERE tenant_id = wanted.tenant_id AND idempotency_key = wanted.idempotency_key
    LIMIT 1
) AS job
