-- Resumes a queue. Deletes its row, because unused names would accumulate.
DELETE FROM longhaul.paused_queues WHERE tenant_id = $1::text AND name = $2::text
