-- Keeps a job that cannot be read out of the way of claims and sweeps: nobody holds it, and its lease does
-- not end.
UPDATE longhaul.leases SET lease_until = 9223372036854775807
WHERE tenant_id = $1::text AND id = $2::text
