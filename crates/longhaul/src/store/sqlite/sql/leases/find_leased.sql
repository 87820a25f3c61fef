-- Finds a job by its current lease: a superseded epoch finds nothing and so writes nothing.
SELECT leases.seq, leases.attempt, leases.cancel_requested_at IS NOT NULL
FROM jobs INNER JOIN leases USING (seq)
WHERE jobs.tenant_id = ?1 AND jobs.id = ?2 AND leases.epoch = ?3
