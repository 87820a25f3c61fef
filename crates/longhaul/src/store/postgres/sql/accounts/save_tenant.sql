-- Updates a tenant. Takes the parameters of `insert_tenant.sql`.
UPDATE longhaul.tenants
SET name = $2, subscription = $3, inactive_since = $4, limits = $5, billing_id = $6, billed_at = $7,
    created_at = $8, changed_at = $9
WHERE id = $1
