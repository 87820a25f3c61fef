-- Lists the commands that are left to run before statements can run as a tenant, and whether this user may
-- run each. So no command is tried that the server would reject and log as an error. Grants are listed
-- once the role exists. A view checks access as its owner unless it has `security_invoker`, and loses that
-- option when it is replaced.
WITH role AS (
    SELECT oid FROM pg_roles WHERE rolname = 'longhaul_tenant'
),

me AS (
    SELECT
        rolsuper OR rolcreaterole AS may_create,
        current_setting('server_version_num')::integer >= 150000 AS has_invokers,
        current_setting('server_version_num')::integer >= 160000 AS is_strict
    FROM pg_roles
    WHERE rolname = current_user
),

needed (name, privileges) AS (
    VALUES
    ('jobs', 'SELECT, INSERT, UPDATE, DELETE'),
    ('finished', 'SELECT, INSERT, DELETE'),
    ('lanes', 'SELECT, INSERT, UPDATE'),
    ('ready', 'SELECT, INSERT, DELETE'),
    ('leases', 'SELECT, UPDATE'),
    ('shared_leases', 'SELECT'),
    ('steps', 'SELECT, INSERT, DELETE'),
    ('output_chunks', 'SELECT'),
    ('paused_queues', 'SELECT, INSERT, DELETE'),
    ('tombstones', 'SELECT, INSERT, UPDATE'),
    ('incoming', 'SELECT, DELETE'),
    ('blobs', 'SELECT, UPDATE'),
    ('usage', 'SELECT'),
    ('usage_deltas', 'SELECT, INSERT'),
    ('api_keys', 'SELECT'),
    ('audit', 'SELECT'),
    ('endpoints', 'SELECT'),
    ('records', 'SELECT'),
    ('entries', 'SELECT'),
    ('shared_jobs', 'SELECT')
),

relations AS (
    SELECT
        class.oid, class.relname, class.relkind, class.reloptions,
        pg_has_role(class.relowner, 'USAGE') AS is_mine
    FROM pg_class AS class
    INNER JOIN pg_namespace AS space ON space.oid = class.relnamespace
    WHERE space.nspname = 'longhaul'
),

-- Roles that run the service without owning its tables.
replicas AS (
    SELECT DISTINCT grantee.oid, grantee.rolname
    FROM pg_class AS class
    CROSS JOIN aclexplode(class.relacl) AS acl
    INNER JOIN pg_roles AS grantee ON grantee.oid = acl.grantee
    WHERE
        class.oid = to_regclass('longhaul.replicas') AND acl.privilege_type = 'INSERT'
        AND acl.grantee <> class.relowner AND grantee.rolname <> 'longhaul_tenant'
        AND (pg_has_role(class.relowner, 'USAGE') OR pg_has_role(grantee.oid, 'USAGE'))
),

steps (place, command, may) AS (
    SELECT 1, 'CREATE ROLE longhaul_tenant NOLOGIN', me.may_create
    FROM me
    WHERE NOT EXISTS (SELECT FROM role)
    UNION ALL
    -- An administrator configured the role this way, so this program does not change it.
    SELECT 1, 'ALTER ROLE longhaul_tenant NOSUPERUSER NOBYPASSRLS', false
    FROM pg_roles
    WHERE rolname = 'longhaul_tenant' AND (rolsuper OR rolbypassrls)
    UNION ALL
    -- From version 16 on, the creator of a role is not a member of it, but may grant itself the
    -- membership.
    SELECT
        2, format('GRANT longhaul_tenant TO %I', current_user),
        CASE
            WHEN EXISTS (SELECT FROM role) AND me.is_strict
                THEN (SELECT pg_has_role(oid, 'MEMBER WITH ADMIN OPTION') FROM role)
            ELSE me.may_create
        END
    FROM me
    WHERE NOT coalesce(
        (SELECT pg_has_role(oid, CASE WHEN me.is_strict THEN 'SET' ELSE 'MEMBER' END) FROM role), false
    )
    UNION ALL
    SELECT 3, 'GRANT USAGE ON SCHEMA longhaul TO longhaul_tenant', pg_has_role(space.nspowner, 'USAGE')
    FROM role
    CROSS JOIN pg_namespace AS space
    WHERE space.nspname = 'longhaul' AND NOT has_schema_privilege(role.oid, space.oid, 'USAGE')
    UNION ALL
    SELECT
        4, format('GRANT %s ON longhaul.%I TO longhaul_tenant', needed.privileges, needed.name),
        relations.is_mine
    FROM role
    CROSS JOIN needed
    INNER JOIN relations ON relations.relname = needed.name
    WHERE EXISTS (
        SELECT FROM unnest(string_to_array(needed.privileges, ', ')) AS one (privilege)
        WHERE NOT has_table_privilege(role.oid, relations.oid, one.privilege)
    )
    UNION ALL
    SELECT 5, format('ALTER VIEW longhaul.%I SET (security_invoker = true)', relname), is_mine
    FROM relations
    CROSS JOIN me
    WHERE me.has_invokers AND relkind = 'v' AND NOT 'security_invoker=true' = ANY (coalesce(reloptions, '{}'))
    UNION ALL
    SELECT
        6, format('SELECT longhaul.grant_replica(%L)', quote_ident(replicas.rolname)),
        bool_and(relations.is_mine)
    FROM replicas
    CROSS JOIN relations
    INNER JOIN pg_policy AS policy ON policy.polrelid = relations.oid AND policy.polname = 'tenant_isolation'
    WHERE NOT EXISTS (
        SELECT FROM pg_policy AS other
        WHERE other.polrelid = policy.polrelid AND replicas.oid = ANY (other.polroles)
    )
    GROUP BY replicas.rolname
)

SELECT command, may FROM steps
ORDER BY place, command
