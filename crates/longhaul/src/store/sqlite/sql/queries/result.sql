-- Reads a job's result.
SELECT result FROM finished WHERE seq = ?1
