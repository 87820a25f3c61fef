-- Lists jobs of one finished status, newest first, without scanning other jobs. Filters that are NULL match
-- everything; labels are passed as JSON.
SELECT jobs.seq, finished.id
FROM finished INDEXED BY finished_by_status CROSS JOIN jobs ON jobs.seq = finished.seq
WHERE
    finished.tenant_id = ?1 AND finished.id < ?2 AND finished.id >= ?8 AND finished.status = ?9
    AND (?3 IS NULL OR jobs.kind = ?3)
    AND (?4 IS NULL OR jobs.queue = ?4)
    AND (?5 IS NULL OR jobs.created_at >= ?5)
    AND (?6 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?6) AS want WHERE NOT EXISTS (
            SELECT 1 FROM json_each(jobs.labels) AS has
            WHERE has.key = want.key AND has.value = want.value
        )
    ))
ORDER BY finished.id DESC
LIMIT ?7
