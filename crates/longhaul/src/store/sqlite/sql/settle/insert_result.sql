-- Inserts a result, in the transition to completed: a result exists if and only if the job completed.
INSERT INTO results (seq, result) VALUES (?1, ?2)
