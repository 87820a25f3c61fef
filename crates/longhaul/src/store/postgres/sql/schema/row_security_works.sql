-- Run in a tenant's name: whether everything of tenants is behind the wall. A role that owns a table, or was
-- given the right to pass, would see everything.
SELECT count(*) > 0 AND bool_and(row_security_active(policy.polrelid))
FROM pg_policy AS policy
INNER JOIN pg_class AS class ON class.oid = policy.polrelid
INNER JOIN pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = 'longhaul' AND policy.polname = 'tenant_isolation'
