-- Remembers the id, and only the id, of a deleted job.
INSERT INTO tombstones (tenant_id, id, gone_at) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET gone_at = excluded.gone_at
