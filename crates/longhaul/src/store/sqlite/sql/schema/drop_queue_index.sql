-- Without limits on queues nobody reads this index, and every change would pay for it.
DROP INDEX IF EXISTS jobs_ready_by_queue
