-- Stores a checkpoint of a job with a current lease, in one statement because it is the hottest write.
-- Writes nothing for a superseded epoch and overwrites no stored step.
INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
SELECT seq, ?4, ?5, ?6, ?7, attempt, ?8, ?9
FROM jobs
WHERE tenant_id = ?1 AND id = ?2 AND epoch = ?3 AND status = 'running'
ON CONFLICT DO NOTHING
