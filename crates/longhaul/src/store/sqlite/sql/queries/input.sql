-- Reads a job's input, which is separate from the job's row because every transition rewrites that row.
SELECT input FROM inputs WHERE seq = ?1
