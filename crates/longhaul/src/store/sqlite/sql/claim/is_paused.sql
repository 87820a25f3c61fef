-- Returns a row if the queue is paused. Runs whenever a job becomes pending while any queue is paused: one seek.
SELECT 1 FROM paused_queues WHERE tenant_id = ?1 AND name = ?2
