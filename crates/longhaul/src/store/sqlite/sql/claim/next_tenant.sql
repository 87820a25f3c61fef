-- Hops to the next tenant with jobs of a kind in line: one seek, however many each has.
SELECT tenant_id FROM jobs INDEXED BY jobs_ready
WHERE rank IS NOT NULL AND kind = ?1 AND tenant_id > ?2
ORDER BY tenant_id
LIMIT 1
