-- Stores a checkpoint under the lease that holds the job, in one statement because it is the hottest
-- write: nothing is written for a superseded epoch, nor over a stored step.
INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
SELECT seq, ?4, ?5, ?6, ?7, attempt, ?8, ?9
FROM jobs
WHERE tenant_id = ?1 AND id = ?2 AND epoch = ?3 AND status = 'running'
ON CONFLICT DO NOTHING
