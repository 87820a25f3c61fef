-- Deletes a job's input together with the job.
DELETE FROM inputs WHERE seq = ?1
