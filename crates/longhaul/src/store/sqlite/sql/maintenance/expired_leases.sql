-- Lists jobs with expired leases, the oldest expiry first.
SELECT seq FROM jobs INDEXED BY jobs_leased
WHERE status = 'running' AND lease_until <= ?1
ORDER BY lease_until
LIMIT ?2
