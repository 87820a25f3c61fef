-- A queue has a row only while it is paused. Claims look here, so that not one of its jobs is touched.
INSERT INTO longhaul.paused_queues (tenant_id, name) VALUES ($1::text, $2::text)
ON CONFLICT DO NOTHING
