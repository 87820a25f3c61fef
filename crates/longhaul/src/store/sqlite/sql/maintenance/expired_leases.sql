-- Lists jobs with expired leases, the oldest expiry first. Reads all leases, because there are few.
SELECT seq FROM leases
WHERE lease_until <= ?1
ORDER BY lease_until
LIMIT ?2
