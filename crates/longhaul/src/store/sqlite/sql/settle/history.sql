-- Reads a job's history. Only reads of complete records use it, because a history may be long.
SELECT history FROM jobs WHERE seq = ?1
