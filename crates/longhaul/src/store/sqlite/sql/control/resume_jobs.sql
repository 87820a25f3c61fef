-- Returns a paused queue's jobs to their former positions; those that are due become ready at once.
UPDATE ready INDEXED BY ready_by_queue SET
    paused = 0, rank = iif(run_at <= ?3, run_at - priority * ?4, NULL)
WHERE tenant_id = ?1 AND queue = ?2
