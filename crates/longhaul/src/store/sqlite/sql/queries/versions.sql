-- Reads the versions of all watched jobs in one statement, by the index of ids and without their contents,
-- because it runs several times a second while any client watches.
SELECT
    coalesce(finished.version, leases.version, jobs.version),
    CASE
        WHEN jobs.seq IS NULL THEN NULL
        WHEN finished.seq IS NOT NULL THEN finished.status
        WHEN leases.seq IS NOT NULL THEN 'running'
        ELSE 'pending'
    END,
    leases.cancel_requested_at IS NOT NULL
FROM json_each(?1) AS asked
LEFT JOIN jobs INDEXED BY jobs_id
    ON jobs.tenant_id = asked.value ->> 0 AND jobs.id = asked.value ->> 1
LEFT JOIN leases ON leases.seq = jobs.seq
LEFT JOIN finished ON finished.seq = jobs.seq
ORDER BY asked.key
