-- Written once, with the transition to completed: a result is there if and only if the job completed.
INSERT INTO results (seq, result) VALUES (?1, ?2)
