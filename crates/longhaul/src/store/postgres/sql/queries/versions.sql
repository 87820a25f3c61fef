-- Reads the versions of all watched jobs in one statement, without their contents, because it runs several
-- times a second while any client watches.
SELECT
    coalesce(lease.version, finished.version, job.version),
    CASE
        WHEN job.id IS NULL THEN NULL
        WHEN finished.id IS NOT NULL THEN finished.status
        WHEN lease.id IS NOT NULL THEN 'running'
        ELSE 'pending'
    END
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (tenant_id, id, place)
LEFT JOIN longhaul.jobs AS job USING (tenant_id, id)
LEFT JOIN longhaul.leases AS lease USING (tenant_id, id)
LEFT JOIN longhaul.finished
    ON
        finished.tenant_id = job.tenant_id
        AND finished.status IN ('completed', 'failed', 'cancelled') AND finished.id = job.id
ORDER BY asked.place
