-- Deletes audit entries past their retention. Bounded per call.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 ORDER BY id LIMIT ?2)
