-- Imports usage from another store. Replaces the rows of an earlier import from the same store instead of
-- adding to them.
INSERT INTO longhaul.usage (
    tenant_id, hour, kind, key_id, origin, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
)
SELECT
    tenant_id, hour, kind, key_id, $2::text, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
FROM json_populate_recordset(NULL::longhaul.usage, $1::text::json)
ON CONFLICT (tenant_id, hour, kind, key_id, origin) DO UPDATE SET
    jobs = excluded.jobs, run_ms = excluded.run_ms, payload_bytes = excluded.payload_bytes,
    steps = excluded.steps, prompt_tokens = excluded.prompt_tokens,
    completion_tokens = excluded.completion_tokens
RETURNING 1
