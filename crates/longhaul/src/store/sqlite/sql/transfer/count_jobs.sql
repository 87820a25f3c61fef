-- Counts the jobs to export.
SELECT count(*) FROM jobs
