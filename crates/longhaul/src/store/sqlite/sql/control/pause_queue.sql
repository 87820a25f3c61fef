-- Pauses a queue. A queue has a row only while it is paused.
INSERT INTO paused_queues (tenant_id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING
