-- Lists jobs of every status, newest first. Filters that are NULL match everything; labels are passed as
-- JSON.
SELECT seq, id FROM jobs INDEXED BY jobs_id
WHERE
    tenant_id = ?1 AND id < ?2 AND id >= ?8
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR queue = ?4)
    AND (?5 IS NULL OR created_at >= ?5)
    AND (?6 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?6) AS want WHERE NOT EXISTS (
            SELECT 1 FROM json_each(jobs.labels) AS has
            WHERE has.key = want.key AND has.value = want.value
        )
    ))
ORDER BY id DESC
LIMIT ?7
