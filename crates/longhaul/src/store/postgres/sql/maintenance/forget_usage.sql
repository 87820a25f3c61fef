-- Deletes usage past its retention. Bounded per call, like the deletion of jobs.
DELETE FROM longhaul.usage
WHERE (tenant_id, hour, kind, key_id, origin) IN (
    SELECT tenant_id, hour, kind, key_id, origin FROM longhaul.usage
    WHERE hour < $1::bigint
    ORDER BY hour
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
)
