-- Removes the replica of a process that has ended without deregistering, and expires its leases: the next rescue takes
-- its jobs at once instead of waiting for their leases to run out. Does nothing if another process has the name by
-- now, because its leases would expire too. Leases are locked in the order of ids, as by all statements.
WITH ended AS (
    DELETE FROM longhaul.replicas WHERE name = $1::text AND run = $2::bigint
    RETURNING name
),

held AS (
    SELECT lease.tenant_id, lease.id
    FROM longhaul.leases AS lease
    INNER JOIN ended ON lease.replica = ended.name
    WHERE lease.lease_until < 9223372036854775807
    ORDER BY lease.tenant_id, lease.id
    FOR UPDATE OF lease
),

held_shared AS (
    SELECT lease.tenant_id, lease.last_id
    FROM longhaul.shared_leases AS lease
    INNER JOIN ended ON lease.replica = ended.name
    ORDER BY lease.tenant_id, lease.last_id
    FOR UPDATE OF lease
),

expired AS (
    UPDATE longhaul.leases AS lease SET lease_until = least(lease.lease_until, $3::bigint)
    FROM held
    WHERE lease.tenant_id = held.tenant_id AND lease.id = held.id
)

UPDATE longhaul.shared_leases AS lease SET lease_until = least(lease.lease_until, $3::bigint)
FROM held_shared AS held
WHERE lease.tenant_id = held.tenant_id AND lease.last_id = held.last_id
