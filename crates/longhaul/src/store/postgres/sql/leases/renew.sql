-- Extends leases and changes nothing else: no version, no history. Locks in the order of ids.
WITH held AS (
    SELECT lease.tenant_id, lease.id
    FROM longhaul.leases AS lease
    INNER JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS wanted (tenant_id, id, epoch)
        USING (tenant_id, id, epoch)
    ORDER BY lease.tenant_id, lease.id
    FOR UPDATE OF lease
)

UPDATE longhaul.leases AS lease SET lease_until = $4::bigint
FROM held
WHERE lease.tenant_id = held.tenant_id AND lease.id = held.id
RETURNING lease.tenant_id, lease.id, lease.epoch, lease.cancel_requested_at IS NOT NULL
