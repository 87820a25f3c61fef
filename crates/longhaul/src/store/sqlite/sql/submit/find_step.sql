-- A step is its name: its position may differ between attempts that run steps at once.
SELECT position, output FROM steps WHERE seq = ?1 AND name = ?2
