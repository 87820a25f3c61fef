-- Returns a row if any queue is paused.
SELECT 1 FROM paused_queues LIMIT 1
