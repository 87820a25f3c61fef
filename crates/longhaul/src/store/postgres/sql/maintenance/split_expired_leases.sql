-- Splits shared leases that have expired, so that their jobs can be rescued.
SELECT longhaul.split_leases(array_agg(tenant_id), array_agg(last_id))
FROM longhaul.shared_leases
WHERE lease_until <= $1::bigint
