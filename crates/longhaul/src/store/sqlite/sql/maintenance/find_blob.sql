-- Whether this was stored for a job and is not deleted, or the job still goes on and may be about to store it.
SELECT 1 FROM blobs WHERE tenant_id = ?1 AND id = ?2 AND path = ?3 AND deleted_at IS NULL
UNION ALL
SELECT 1 FROM jobs
WHERE tenant_id = ?1 AND id = ?2 AND status NOT IN ('completed', 'failed', 'cancelled')
