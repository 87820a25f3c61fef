-- Deletes expired tombstones. Bounded per call, like the deletion of jobs.
DELETE FROM longhaul.tombstones
WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM longhaul.tombstones
    WHERE gone_at <= $1::bigint
    ORDER BY gone_at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
)
