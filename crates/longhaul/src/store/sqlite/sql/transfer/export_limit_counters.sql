-- Lists the limit counters page by page. Without running jobs, because the copy returns them to their queues.
SELECT scope, name, 0 AS running, parts, taken_at FROM limit_counters
WHERE (scope, name) > (?1, ?2)
ORDER BY scope, name
LIMIT ?3
