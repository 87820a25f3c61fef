-- Deletes a job's steps together with the job.
DELETE FROM steps WHERE seq = ?1
