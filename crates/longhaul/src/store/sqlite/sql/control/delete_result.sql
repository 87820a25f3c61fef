-- Deletes a job's result together with the job.
DELETE FROM results WHERE seq = ?1
