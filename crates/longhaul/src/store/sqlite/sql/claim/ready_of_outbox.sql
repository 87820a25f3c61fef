-- Reads an outbox's ready jobs of one kind and queue in claim order, after the last one that was read.
SELECT seq, rank, id FROM ready INDEXED BY ready_in_outboxes
WHERE
    rank IS NOT NULL AND tenant_id >= '~' AND kind = ?1 AND tenant_id = ?2 AND queue = ?6
    AND rank >= ?3 AND (rank, id) > (?3, ?4)
ORDER BY rank, id
LIMIT ?5
