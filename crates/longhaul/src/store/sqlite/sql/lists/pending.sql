-- Lists pending jobs, newest first, without scanning other jobs. Filters that are NULL match everything; labels
-- are passed as JSON.
SELECT jobs.seq, ready.id FROM ready CROSS JOIN jobs ON jobs.seq = ready.seq
WHERE
    ready.tenant_id = ?1 AND ready.id < ?2 AND ready.id >= ?8
    AND (?3 IS NULL OR jobs.kind = ?3)
    AND (?4 IS NULL OR jobs.queue = ?4)
    AND (?5 IS NULL OR jobs.created_at >= ?5)
    AND (?6 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?6) AS want WHERE NOT EXISTS (
            SELECT 1 FROM json_each(jobs.labels) AS has
            WHERE has.key = want.key AND has.value = want.value
        )
    ))
ORDER BY ready.id DESC
LIMIT ?7
