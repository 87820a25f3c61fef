-- How many finished steps a job has before the position ?2, or in all.
SELECT count(*) FROM steps WHERE seq = ?1 AND (?2 IS NULL OR position < ?2)
