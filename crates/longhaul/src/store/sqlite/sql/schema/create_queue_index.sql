-- Lets claims walk a tenant's line queue by queue, so that a queue that is held back does not have to be
-- walked over. Made by the first claim that has limits on queues: without them it would only cost.
CREATE INDEX IF NOT EXISTS jobs_ready_by_queue ON jobs (kind, tenant_id, queue, rank, id)
WHERE rank IS NOT NULL
