-- Reads one tenant.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM tenants
WHERE id = ?1
