-- A second wall between tenants: were the tenant missing in a statement's WHERE, the database itself would
-- still show no rows but one tenant's.
--
-- Who owns the tables sees everything, as before. Of the others, `longhaul_tenant` sees the rows of the
-- tenant that its transaction names, and who may say that it is a replica runs the service and sees
-- everything too. Anybody else sees nothing, whatever is granted to him. The role is named and not
-- referred to: it need not be there, and a dump can be restored where it is not.

-- Puts a table behind the wall. `key` is the column that says whose a row is.
--
-- Both questions stand in a SELECT, so that they are asked once for each statement and not for each row. The
-- answer is compared with NULL because the planner believes that to be true of nearly every row, as it is:
-- statements name their tenant anyway. From anything else it would guess that half of them are kept back,
-- and choose other plans.
CREATE FUNCTION longhaul.wall_in(walled regclass, key name) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    EXECUTE format(
        $policy$
        CREATE POLICY wall ON %1$s USING (
            CASE
                WHEN %2$I = (SELECT CASE
                    WHEN current_user = 'longhaul_tenant' THEN current_setting('longhaul.tenant', true)
                END) THEN true
                -- Its outbox.
                WHEN %2$I = (SELECT CASE
                    WHEN current_user = 'longhaul_tenant'
                        THEN '~' || current_setting('longhaul.tenant', true)
                END) THEN true
                WHEN (SELECT
                    current_user <> 'longhaul_tenant'
                    AND has_table_privilege('longhaul.replicas'::regclass, 'INSERT')
                ) THEN true
            END IS NOT NULL
        )
        $policy$,
        walled, key
    );
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', walled);
END
$$;

-- Lets a role through that runs the service and owns nothing. It would pass anyway, but statements that are
-- held to a condition of somebody else's may not look rows up by their address, and most of what is hot
-- does. A condition that is always true is none.
CREATE FUNCTION longhaul.let_in(replica regrole) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    walled record;
BEGIN
    FOR walled IN
        SELECT polrelid::regclass AS name FROM pg_policy AS policy
        INNER JOIN pg_class AS class ON class.oid = policy.polrelid
        WHERE
            policy.polname = 'wall' AND class.relnamespace = 'longhaul'::regnamespace
            AND NOT EXISTS (
                SELECT FROM pg_policy AS other
                WHERE other.polrelid = policy.polrelid AND replica = ANY (other.polroles)
            )
        ORDER BY class.relname
    LOOP
        EXECUTE format(
            'CREATE POLICY %I ON %s TO %s USING (true)',
            left('replica_' || trim('"' FROM replica::text), 63), walled.name, replica
        );
    END LOOP;
END
$$;

SELECT longhaul.wall_in('longhaul.jobs', 'tenant_id');
SELECT longhaul.wall_in('longhaul.settled', 'tenant_id');
SELECT longhaul.wall_in('longhaul.lanes', 'tenant_id');
SELECT longhaul.wall_in('longhaul.line', 'tenant_id');
SELECT longhaul.wall_in('longhaul.leases', 'tenant_id');
SELECT longhaul.wall_in('longhaul.steps', 'tenant_id');
SELECT longhaul.wall_in('longhaul.paused_queues', 'tenant_id');
SELECT longhaul.wall_in('longhaul.tombstones', 'tenant_id');
SELECT longhaul.wall_in('longhaul.arrivals', 'tenant_id');
SELECT longhaul.wall_in('longhaul.blobs', 'tenant_id');
SELECT longhaul.wall_in('longhaul.usage', 'tenant_id');
SELECT longhaul.wall_in('longhaul.usage_deltas', 'tenant_id');
SELECT longhaul.wall_in('longhaul.api_keys', 'tenant_id');
SELECT longhaul.wall_in('longhaul.audit', 'tenant_id');
SELECT longhaul.wall_in('longhaul.tenants', 'id');
