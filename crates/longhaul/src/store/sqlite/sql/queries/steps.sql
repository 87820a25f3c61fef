-- In the order in which the code asked; attempts that ran steps at once may share a position.
SELECT name, position, output, alone, attempt, started_at, completed_at
FROM steps
WHERE seq = ?1
ORDER BY position, completed_at, step_seq
