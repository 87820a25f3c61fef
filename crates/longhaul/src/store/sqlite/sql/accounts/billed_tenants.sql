-- Lists the tenants of one billing customer.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM tenants
WHERE billing_id = ?1
ORDER BY id
