-- Apart from the job's row, which every transition rewrites.
INSERT INTO inputs (seq, input) VALUES (?1, ?2)
