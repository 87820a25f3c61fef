-- Indexes ready jobs by queue, so that claims can skip a queue whose limit is exhausted without scanning
-- its jobs. Created by the first claim with limits on queues, because without them it would only slow
-- writes down.
CREATE INDEX IF NOT EXISTS ready_by_queue_and_rank ON ready (kind, tenant_id, queue, rank, id, seq)
WHERE rank IS NOT NULL
