-- Sums a tenant's usage by hour, from $2 up to but not including $3, over totals and deltas.
SELECT
    hour, kind, key_id, sum(jobs)::bigint, sum(run_ms)::bigint, sum(payload_bytes)::bigint,
    sum(steps)::bigint, sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint
FROM (
    SELECT
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
        completion_tokens
    FROM longhaul.usage
    UNION ALL
    SELECT
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
        completion_tokens
    FROM longhaul.usage_deltas
) AS used
WHERE tenant_id = $1::text AND hour >= $2::bigint AND hour < $3::bigint
GROUP BY hour, kind, key_id
ORDER BY hour, kind, key_id
