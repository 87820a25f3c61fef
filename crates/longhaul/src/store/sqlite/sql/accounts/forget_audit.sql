-- Entries are kept for long, not for ever.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 ORDER BY id LIMIT ?2)
