-- Extends a lease and changes nothing else: no version, no history.
UPDATE leases SET lease_until = ?4
WHERE seq = (SELECT seq FROM jobs WHERE tenant_id = ?1 AND id = ?2) AND epoch = ?3
RETURNING cancel_requested_at IS NOT NULL
