-- Locks leases in the order of ids before their jobs are read, so that a transaction that waited here
-- reads the other one's writes.
SELECT FROM longhaul.leases AS lease
INNER JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS held (tenant_id, id, epoch)
    USING (tenant_id, id, epoch)
ORDER BY lease.tenant_id, lease.id
FOR UPDATE OF lease
