-- Returns a row if the tenant has a ready job of this kind: one seek.
SELECT 1 FROM ready INDEXED BY ready_by_rank
WHERE rank IS NOT NULL AND kind = ?1 AND tenant_id = ?2
LIMIT 1
