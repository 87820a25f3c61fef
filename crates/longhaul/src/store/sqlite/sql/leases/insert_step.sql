-- Stores a checkpoint of a job whose lease was found current in the same transaction. Overwrites no stored step.
INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING
