-- Counts the finished steps of a job before the position ?2, or all if that is NULL.
SELECT count(*) FROM steps WHERE seq = ?1 AND (?2 IS NULL OR position < ?2)
