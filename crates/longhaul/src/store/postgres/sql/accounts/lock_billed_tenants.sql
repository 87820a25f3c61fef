-- Locks the tenants of one billing customer before they are changed.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM longhaul.tenants
WHERE billing_id = $1
ORDER BY id
FOR UPDATE
