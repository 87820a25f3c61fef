-- Lists a page of tenants.
SELECT id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at
FROM tenants
WHERE id > ?1
ORDER BY id
LIMIT ?2
