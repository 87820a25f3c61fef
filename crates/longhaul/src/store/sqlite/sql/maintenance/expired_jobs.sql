-- Lists finished jobs past their retention.
SELECT seq, tenant_id, id FROM finished INDEXED BY finished_expiring
WHERE expires_at <= ?1
ORDER BY expires_at
LIMIT ?2
