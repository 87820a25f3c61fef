-- What is counted of a scope that has a limit.
SELECT running, parts, taken_at FROM limit_counters WHERE scope = ?1 AND name = ?2
