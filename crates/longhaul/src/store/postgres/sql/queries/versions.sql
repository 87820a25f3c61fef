-- Reads the versions of all watched jobs in one statement, without their contents, because it runs several
-- times a second while any client watches.
SELECT job.version, job.status, job.cancel_requested_at IS NOT NULL AND job.status = 'running'
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (tenant_id, id, place)
LEFT JOIN LATERAL (
    SELECT version, status, cancel_requested_at FROM longhaul.records
    WHERE tenant_id = asked.tenant_id AND id = asked.id
    LIMIT 1
) AS job ON true
ORDER BY asked.place
