-- Takes a queue's jobs out of line, so that claims never walk over them.
UPDATE jobs INDEXED BY jobs_pending SET paused = 1, rank = NULL
WHERE status = 'pending' AND tenant_id = ?1 AND queue = ?2
