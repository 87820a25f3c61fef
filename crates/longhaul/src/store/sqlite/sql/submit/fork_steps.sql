-- Copies the first steps to a fork, so that purging the original does not remove them. ?3 is the position
-- from which the fork continues; NULL copies all steps.
INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
SELECT ?2, name, position, output, alone, attempt, started_at, completed_at
FROM steps
WHERE seq = ?1 AND (?3 IS NULL OR position < ?3)
