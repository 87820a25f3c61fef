-- Inserts a pending job into the queue.
INSERT INTO ready (tenant_id, id, seq, kind, queue, priority, run_at, rank, paused)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
