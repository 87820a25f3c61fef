-- Lists steps in the order of the handler's calls; steps that ran concurrently may share a position.
SELECT name, position, output, alone, attempt, started_at, completed_at
FROM steps
WHERE seq = ?1
ORDER BY position, completed_at, step_seq
