-- Splits the shared leases of a claim whose response was lost.
SELECT longhaul.split_leases(array_agg(tenant_id), array_agg(last_id))
FROM longhaul.shared_leases
WHERE replica = $1::text AND claim = $2::bigint
