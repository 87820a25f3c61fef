-- Raises the epochs of jobs that are not finished, after a restore. Running jobs are included, because an unreadable one
-- keeps its lease.
UPDATE jobs SET epoch = epoch + ?1
WHERE seq NOT IN (SELECT seq FROM finished)
