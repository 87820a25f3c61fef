-- Inserts a job's input, separate from the job's row because every transition rewrites that row.
INSERT INTO inputs (seq, input) VALUES (?1, ?2)
