-- Writes progress, events and cancellation requests of running jobs. The WHERE clause contains the
-- version, so that a lease that changed since it was read is never overwritten.
UPDATE longhaul.leases AS lease SET
    version = told.version, phase = told.phase, progress = told.progress, events = told.events,
    cancel_requested_at = told.cancel_requested_at
FROM unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
    $8::text[], $9::bigint[]
) AS told (
    tenant_id, id, epoch, read_version, version, phase, progress, events, cancel_requested_at
)
WHERE
    lease.tenant_id = told.tenant_id AND lease.id = told.id AND lease.epoch = told.epoch
    AND lease.version = told.read_version
RETURNING lease.tenant_id, lease.id
