-- Resumes a queue. Deletes its row, because unused names would accumulate.
DELETE FROM paused_queues WHERE tenant_id = ?1 AND name = ?2
