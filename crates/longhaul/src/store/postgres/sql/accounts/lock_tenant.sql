-- Locks a tenant before it is changed.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM longhaul.tenants
WHERE id = $1
FOR UPDATE
