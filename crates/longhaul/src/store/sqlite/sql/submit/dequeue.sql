-- Removes a job that is claimed or cancelled from the queue.
DELETE FROM ready WHERE tenant_id = ?1 AND id = ?2
