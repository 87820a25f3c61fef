-- Splits all shared leases, after a restore, because their epoch cannot be raised.
SELECT longhaul.split_leases(array_agg(tenant_id), array_agg(last_id))
FROM longhaul.shared_leases
