-- Locks expired leases, the oldest expiry first. Every replica rescues jobs and skips rows that another
-- one has locked.
SELECT tenant_id, id FROM longhaul.leases
WHERE lease_until <= $1::bigint
ORDER BY lease_until
LIMIT $2::bigint
FOR UPDATE SKIP LOCKED
