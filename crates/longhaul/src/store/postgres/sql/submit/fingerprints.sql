-- What makes a submission the same one. A job that was submitted by SQL has no fingerprint yet: it is
-- made from its input.
SELECT
    job.tenant_id, job.id, job.fingerprint, job.kind,
    CASE WHEN job.fingerprint IS NULL THEN job.input END AS input
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.jobs AS job USING (tenant_id, id)
