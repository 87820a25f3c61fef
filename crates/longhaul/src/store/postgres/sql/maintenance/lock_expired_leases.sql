-- Jobs whose worker stopped renewing, the longest lost first. Every replica sweeps: what another one has
-- locked is left to it.
SELECT tenant_id, id FROM longhaul.leases
WHERE lease_until <= $1::bigint
ORDER BY lease_until
LIMIT $2::bigint
FOR UPDATE SKIP LOCKED
