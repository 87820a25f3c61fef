-- Keeps a job that cannot be read out of the way of claims and sweeps.
UPDATE jobs SET rank = NULL, paused = 1, lease_until = NULL, counted = NULL WHERE seq = ?1
RETURNING tenant_id, id
