-- Pauses a queue. A queue has a row only while it is paused; claims check it, so that they touch none of
-- its jobs.
INSERT INTO longhaul.paused_queues (tenant_id, name) VALUES ($1::text, $2::text)
ON CONFLICT DO NOTHING
