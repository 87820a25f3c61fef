-- Reads a tenant's usage by hour, from ?2 up to but not including ?3.
SELECT
    hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
FROM usage
WHERE tenant_id = ?1 AND hour >= ?2 AND hour < ?3
ORDER BY hour, kind, key_id
