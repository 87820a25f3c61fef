-- One tenant, by its id or by what the payment provider calls it.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM longhaul.tenants
WHERE id = $1
