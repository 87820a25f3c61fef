-- Lists the children of a job, newest first, without scanning other jobs. Filters that are NULL match
-- everything; labels are passed as JSON.
SELECT seq, id FROM jobs INDEXED BY jobs_of_parent
WHERE
    tenant_id = ?1 AND id < ?2 AND id >= ?8 AND parent_id = ?9
    AND (?10 IS NULL OR (SELECT records.status FROM records WHERE records.seq = jobs.seq) = ?10)
    AND (?3 IS NULL OR jobs.kind = ?3)
    AND (?4 IS NULL OR jobs.queue = ?4)
    AND (?5 IS NULL OR jobs.created_at >= ?5)
    AND (?6 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?6) AS want WHERE NOT EXISTS (
            SELECT 1 FROM json_each(jobs.labels) AS has
            WHERE has.key = want.key AND has.value = want.value
        )
    ))
ORDER BY id DESC
LIMIT ?7
