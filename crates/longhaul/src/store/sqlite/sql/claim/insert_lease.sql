-- Leases a job.
INSERT INTO leases (
    seq, epoch, version, attempt, replica, claimed_at, lease_until, started_at, cancel_requested_at,
    tenant_id, id, queue, code_version, counted, progress
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
