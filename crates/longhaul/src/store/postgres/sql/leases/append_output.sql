-- Appends chunks of output streams whose lease is current. Takes no lock on the lease, because a row that is
-- written just after the end of its attempt does no harm. Not synced, because chunks may be lost.
INSERT INTO longhaul.output_chunks (tenant_id, id, epoch, first, chunks)
SELECT new.tenant_id, new.id, new.epoch, new.first, new.chunks
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
    AS new (tenant_id, id, epoch, first, chunks)
CROSS JOIN LATERAL (
    SELECT FROM longhaul.leases AS held
    WHERE held.tenant_id = new.tenant_id AND held.id = new.id AND held.epoch = new.epoch
    LIMIT 1
) AS lease
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING id
