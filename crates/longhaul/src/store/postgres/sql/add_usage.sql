-- Adds what jobs used that were ended on their way from another store.
INSERT INTO longhaul.usage_deltas (
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
)
SELECT tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps
FROM json_populate_recordset(NULL::longhaul.usage_deltas, $1::text::json)
