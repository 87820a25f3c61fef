-- Reads a job's input, which is separate from the job's row if it is long.
SELECT coalesce(input, (SELECT inputs.input FROM inputs WHERE inputs.seq = jobs.seq))
FROM jobs
WHERE seq = ?1
