-- At open nobody else can be running a job of this file: the next sweep takes them all at once instead
-- of waiting for their leases to run out.
UPDATE jobs INDEXED BY jobs_leased SET lease_until = 0 WHERE status = 'running'
