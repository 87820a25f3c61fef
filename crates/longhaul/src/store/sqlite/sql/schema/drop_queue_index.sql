-- Drops the index by queue, which is unused without limits on queues but would slow every write down.
DROP INDEX IF EXISTS ready_by_queue_and_rank
