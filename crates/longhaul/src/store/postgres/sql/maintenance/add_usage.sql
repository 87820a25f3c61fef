-- Adds usage of jobs that were imported as finished, and the few usage rows with tokens of jobs that
-- finish here.
INSERT INTO longhaul.usage_deltas (
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
)
SELECT
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
FROM json_populate_recordset(NULL::longhaul.usage_deltas, $1::text::json)
