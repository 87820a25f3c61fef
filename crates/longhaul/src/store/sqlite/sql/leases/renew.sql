-- Extends a lease and changes nothing else: no version, no history.
UPDATE jobs SET lease_until = ?4
WHERE tenant_id = ?1 AND id = ?2 AND epoch = ?3 AND status = 'running'
RETURNING cancel_requested_at IS NOT NULL
