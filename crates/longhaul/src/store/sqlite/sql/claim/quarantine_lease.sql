-- Quarantines an unreadable job that is running, so that rescues do not read it.
UPDATE leases SET lease_until = NULL, counted = NULL WHERE seq = ?1
RETURNING tenant_id, id
