-- Returns a row if the blob is recorded and not deleted, or if its job is unfinished, so that an attempt
-- may be about to record it.
SELECT 1 FROM blobs WHERE tenant_id = ?1 AND id = ?2 AND path = ?3 AND deleted_at IS NULL
UNION ALL
SELECT 1 FROM jobs
WHERE tenant_id = ?1 AND id = ?2 AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.seq = jobs.seq)
