-- A fork owns the steps it starts with. ?3 is the position it goes on from, NULL for "after all".
INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
SELECT ?2, name, position, output, alone, attempt, started_at, completed_at
FROM steps
WHERE seq = ?1 AND (?3 IS NULL OR position < ?3)
