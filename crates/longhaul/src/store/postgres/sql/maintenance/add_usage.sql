-- Adds what jobs used that were ended on their way from another store, and the tokens of those that end here,
-- which are few.
INSERT INTO longhaul.usage_deltas (
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
)
SELECT
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
FROM json_populate_recordset(NULL::longhaul.usage_deltas, $1::text::json)
