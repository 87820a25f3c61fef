-- Deletes expired tombstones. Bounded per call, like the deletion of jobs.
DELETE FROM tombstones WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM tombstones INDEXED BY tombstones_gone_at
    WHERE gone_at <= ?1
    ORDER BY gone_at
    LIMIT ?2
)
