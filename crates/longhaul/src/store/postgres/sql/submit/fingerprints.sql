-- Reads the fingerprints of jobs. A job submitted by SQL has none yet, so its input is returned to compute
-- it.
SELECT
    job.tenant_id, job.id, job.fingerprint, job.kind,
    CASE WHEN job.fingerprint IS NULL THEN job.input END AS input
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
INNER JOIN longhaul.jobs AS job USING (tenant_id, id)
