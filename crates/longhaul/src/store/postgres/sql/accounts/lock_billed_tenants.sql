-- The tenants that a customer of the payment provider pays for, about to be changed.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM longhaul.tenants
WHERE billing_id = $1
ORDER BY id
FOR UPDATE
