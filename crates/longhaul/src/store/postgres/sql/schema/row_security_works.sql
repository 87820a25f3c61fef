-- Returns whether row-level security applies to every table with tenants' rows. Runs as the tenant role,
-- because a role that owns a table or may bypass policies would see all rows.
SELECT count(*) > 0 AND bool_and(row_security_active(policy.polrelid))
FROM pg_policy AS policy
INNER JOIN pg_class AS class ON class.oid = policy.polrelid
INNER JOIN pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = 'longhaul' AND policy.polname = 'tenant_isolation'
