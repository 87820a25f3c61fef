-- Finds a step by name, because its position may differ between attempts that run steps concurrently.
SELECT position, output FROM steps WHERE seq = ?1 AND name = ?2
