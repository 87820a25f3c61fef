-- Reads the versions of all watched jobs in one statement, without their contents, because it runs several
-- times a second while any client watches.
SELECT
    coalesce(lease.version, job.version),
    CASE WHEN lease.id IS NULL THEN job.status ELSE 'running' END
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (tenant_id, id, place)
LEFT JOIN longhaul.jobs AS job USING (tenant_id, id)
LEFT JOIN longhaul.leases AS lease USING (tenant_id, id)
ORDER BY asked.place
