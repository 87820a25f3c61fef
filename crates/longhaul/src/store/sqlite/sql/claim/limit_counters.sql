-- Reads the counter of a limited scope.
SELECT running, parts, taken_at FROM limit_counters WHERE scope = ?1 AND name = ?2
