-- Takes a queue's jobs out of the index of ready jobs, so that claims never scan them.
UPDATE jobs INDEXED BY jobs_pending SET paused = 1, rank = NULL
WHERE status = 'pending' AND tenant_id = ?1 AND queue = ?2
