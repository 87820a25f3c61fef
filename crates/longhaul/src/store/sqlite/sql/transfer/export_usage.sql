-- Lists all usage page by page.
SELECT
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
FROM usage
WHERE (tenant_id, hour, kind, key_id) > (?1, ?2, ?3, ?4)
ORDER BY tenant_id, hour, kind, key_id
LIMIT ?5
