-- Reads the versions of all watched jobs in one statement, by the index of ids and without their contents,
-- because it runs several times a second while any client watches.
SELECT jobs.version, jobs.status
FROM json_each(?1) AS asked
LEFT JOIN jobs INDEXED BY jobs_id
    ON jobs.tenant_id = asked.value ->> 0 AND jobs.id = asked.value ->> 1
ORDER BY asked.key
