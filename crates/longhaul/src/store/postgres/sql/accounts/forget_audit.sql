-- Deletes audit entries past their retention. Bounded per call.
DELETE FROM longhaul.audit WHERE id IN (SELECT id FROM longhaul.audit WHERE at < $1 ORDER BY id LIMIT $2)
RETURNING id
