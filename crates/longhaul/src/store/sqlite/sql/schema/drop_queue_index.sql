-- Drops the index by queue, which is unused without limits on queues but would slow every write down.
DROP INDEX IF EXISTS jobs_ready_by_queue
