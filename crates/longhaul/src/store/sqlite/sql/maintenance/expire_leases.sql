-- Expires all leases when the file is opened, because no other process can be running its jobs: the next
-- rescue takes them at once instead of waiting for their leases to expire. Their run time until now is
-- metered.
UPDATE leases SET lease_until = min(lease_until, ?1)
