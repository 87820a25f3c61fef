-- Deliveries are claimed receiver by receiver, each of which has a queue of its own. Outboxes alone are in
-- this index: other jobs do not pay for it.
CREATE INDEX jobs_in_outboxes ON jobs (kind, tenant_id, queue, rank, id)
WHERE rank IS NOT NULL AND tenant_id >= '~';
