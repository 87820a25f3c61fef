-- Quarantines an unreadable running job: its lease never expires, so that neither claims nor rescues read
-- it.
UPDATE longhaul.leases SET lease_until = 9223372036854775807
WHERE tenant_id = $1::text AND id = $2::text
