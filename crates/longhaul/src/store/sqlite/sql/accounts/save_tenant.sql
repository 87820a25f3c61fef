-- Updates a tenant.
UPDATE tenants
SET name = ?2, subscription = ?3, inactive_since = ?4, limits = ?5, billing_id = ?6, billed_at = ?7,
    changed_at = ?8
WHERE id = ?1
