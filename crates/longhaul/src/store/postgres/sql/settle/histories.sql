-- Reads histories, before and since the last claim, and the numbers of finished steps.
SELECT
    job.tenant_id, job.id, job.history, job.events,
    (
        SELECT count(*) FROM longhaul.steps AS step
        WHERE step.tenant_id = wanted.tenant_id AND step.id = wanted.id
    ) AS steps
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT tenant_id, id, history, events FROM longhaul.records
    WHERE tenant_id = wanted.tenant_id AND id = wanted.id
    LIMIT 1
) AS job
