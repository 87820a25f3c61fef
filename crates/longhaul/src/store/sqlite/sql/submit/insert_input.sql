-- Inserts an input that is too long for the job's row, because a job that returns to the queue rewrites it.
INSERT INTO inputs (seq, input) VALUES (?1, ?2)
