-- Folds usage deltas into the hourly totals. Every replica runs this and skips rows that another one has
-- locked. Totals are locked in the order of their keys.
WITH picked AS (
    SELECT ctid AS place FROM longhaul.usage_deltas
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
),

taken AS (
    DELETE FROM longhaul.usage_deltas AS delta
    USING picked
    WHERE delta.ctid = picked.place
    RETURNING delta.*
),

folded AS (
    INSERT INTO longhaul.usage (
        tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
        completion_tokens
    )
    SELECT
        tenant_id, hour, kind, key_id, sum(jobs)::bigint, sum(run_ms)::bigint,
        sum(payload_bytes)::bigint, sum(steps)::bigint, sum(prompt_tokens)::bigint,
        sum(completion_tokens)::bigint
    FROM taken
    GROUP BY tenant_id, hour, kind, key_id
    ORDER BY tenant_id, hour, kind, key_id
    ON CONFLICT (tenant_id, hour, kind, key_id, origin) DO UPDATE SET
        jobs = usage.jobs + excluded.jobs, run_ms = usage.run_ms + excluded.run_ms,
        payload_bytes = usage.payload_bytes + excluded.payload_bytes,
        steps = usage.steps + excluded.steps,
        prompt_tokens = usage.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = usage.completion_tokens + excluded.completion_tokens
)

SELECT count(*) FROM taken
