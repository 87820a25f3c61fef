-- Takes a queue's jobs out of the index of ready jobs, so that claims never scan them.
UPDATE ready INDEXED BY ready_by_queue SET paused = 1, rank = NULL
WHERE tenant_id = ?1 AND queue = ?2
