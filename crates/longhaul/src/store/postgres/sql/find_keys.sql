-- Who has an idempotency key, and what makes a submission the same one.
SELECT wanted.tenant_id, wanted.idempotency_key, job.id
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, idempotency_key)
INNER JOIN longhaul.jobs AS job USING (tenant_id, idempotency_key)
