-- Inserts the tombstone of a deleted job, with its id only.
INSERT INTO tombstones (tenant_id, id, gone_at) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET gone_at = excluded.gone_at
