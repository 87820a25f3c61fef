-- Lists finished jobs past their retention.
SELECT seq, tenant_id, id FROM jobs INDEXED BY jobs_expiring
WHERE expires_at <= ?1
ORDER BY expires_at
LIMIT ?2
