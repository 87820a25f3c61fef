-- Quarantines an unreadable job, so that neither claims nor rescues read it.
UPDATE jobs SET rank = NULL, paused = 1, lease_until = NULL, counted = NULL WHERE seq = ?1
RETURNING tenant_id, id
