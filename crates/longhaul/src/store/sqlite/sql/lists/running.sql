-- Lists running jobs, newest first: all leases, because there are few. Filters that are NULL match everything; labels
-- are passed as JSON.
SELECT jobs.seq, leases.id FROM leases CROSS JOIN jobs ON jobs.seq = leases.seq
WHERE
    leases.tenant_id = ?1 AND leases.id < ?2 AND leases.id >= ?8
    AND (?3 IS NULL OR jobs.kind = ?3)
    AND (?4 IS NULL OR jobs.queue = ?4)
    AND (?5 IS NULL OR jobs.created_at >= ?5)
    AND (?6 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?6) AS want WHERE NOT EXISTS (
            SELECT 1 FROM json_each(jobs.labels) AS has
            WHERE has.key = want.key AND has.value = want.value
        )
    ))
ORDER BY leases.id DESC
LIMIT ?7
