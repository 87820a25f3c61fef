-- Reads a job's result, which is separate from the job's row because every transition rewrites that row.
SELECT result FROM results WHERE seq = ?1
