-- Inserts a tenant, unless its id exists.
INSERT INTO tenants (
    id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at, changed_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING
