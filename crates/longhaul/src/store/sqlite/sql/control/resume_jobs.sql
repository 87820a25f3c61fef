-- Puts a queue's jobs back in line, those that are due at once and where they would have been.
UPDATE jobs INDEXED BY jobs_pending SET
    paused = 0, rank = iif(run_at <= ?3, run_at - priority * ?4, NULL)
WHERE status = 'pending' AND tenant_id = ?1 AND queue = ?2
