-- When a claimer with nothing to do should look again.
SELECT min(run_at) FROM jobs INDEXED BY jobs_scheduled
WHERE status = 'pending' AND rank IS NULL AND paused = 0
