-- Returns the time at which an idle claim loop should claim again.
SELECT min(run_at) FROM jobs INDEXED BY jobs_scheduled
WHERE status = 'pending' AND rank IS NULL AND paused = 0
