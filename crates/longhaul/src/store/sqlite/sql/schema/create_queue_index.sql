-- Indexes ready jobs by queue, so that claims can skip a queue whose limit is exhausted without scanning
-- its jobs. Created by the first claim with limits on queues, because without them it would only slow
-- writes down.
CREATE INDEX IF NOT EXISTS jobs_ready_by_queue ON jobs (kind, tenant_id, queue, rank, id)
WHERE rank IS NOT NULL
