-- Deletes usage past its retention. Bounded per call, like the deletion of jobs.
DELETE FROM usage WHERE (tenant_id, hour, kind, key_id) IN (
    SELECT tenant_id, hour, kind, key_id FROM usage INDEXED BY usage_hour
    WHERE hour < ?1
    ORDER BY hour
    LIMIT ?2
)
