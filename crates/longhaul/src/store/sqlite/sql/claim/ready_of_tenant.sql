-- Reads a tenant's ready jobs of one kind in claim order, after the last one that was read.
SELECT seq, rank, id FROM ready INDEXED BY ready_by_rank
WHERE
    rank IS NOT NULL AND kind = ?1 AND tenant_id = ?2
    AND rank >= ?3 AND (rank, id) > (?3, ?4)
ORDER BY rank, id
LIMIT ?5
