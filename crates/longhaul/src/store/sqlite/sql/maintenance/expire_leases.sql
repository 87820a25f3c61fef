-- At open nobody else can be running a job of this file: the next sweep takes them all at once instead
-- of waiting for their leases to run out. What they ran until now counts.
UPDATE jobs INDEXED BY jobs_leased SET lease_until = min(lease_until, ?1) WHERE status = 'running'
