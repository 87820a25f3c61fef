-- Returns the time at which an idle claim loop should claim again.
SELECT min(run_at) FROM ready INDEXED BY ready_scheduled
WHERE rank IS NULL AND paused = 0
