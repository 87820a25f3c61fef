-- Expires the leases of a process that has ended: the next rescue takes its jobs at once instead of waiting for their
-- leases to run out. Those of quarantined jobs stay NULL.
UPDATE leases SET lease_until = min(lease_until, ?2) WHERE replica = ?1
