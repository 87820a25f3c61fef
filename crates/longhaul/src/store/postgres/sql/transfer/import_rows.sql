-- Imports rows of tables that have the same columns in both stores. The parameter is an object with a list of
-- rows for each table. Rows that exist here are left unchanged; the comparison that follows finds them if they differ.
WITH imported_paused_queues AS (
    INSERT INTO longhaul.paused_queues
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.paused_queues, $1::text::json -> 'paused_queues') AS imported
    ON CONFLICT DO NOTHING
),

imported_limit_counters AS (
    INSERT INTO longhaul.limit_counters
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.limit_counters, $1::text::json -> 'limit_counters') AS imported
    ON CONFLICT DO NOTHING
),

imported_tenants AS (
    INSERT INTO longhaul.tenants
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.tenants, $1::text::json -> 'tenants') AS imported
    ON CONFLICT DO NOTHING
),

imported_api_keys AS (
    INSERT INTO longhaul.api_keys
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.api_keys, $1::text::json -> 'api_keys') AS imported
    ON CONFLICT DO NOTHING
),

imported_endpoints AS (
    INSERT INTO longhaul.endpoints
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.endpoints, $1::text::json -> 'endpoints') AS imported
    ON CONFLICT DO NOTHING
),

imported_billing_events AS (
    INSERT INTO longhaul.billing_events
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.billing_events, $1::text::json -> 'billing_events') AS imported
    ON CONFLICT DO NOTHING
),

imported_audit AS (
    INSERT INTO longhaul.audit
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.audit, $1::text::json -> 'audit') AS imported
    ON CONFLICT DO NOTHING
),

imported_usage AS (
    INSERT INTO longhaul.usage
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.usage, $1::text::json -> 'usage') AS imported
    ON CONFLICT DO NOTHING
),

imported_tombstones AS (
    INSERT INTO longhaul.tombstones
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.tombstones, $1::text::json -> 'tombstones') AS imported
    ON CONFLICT DO NOTHING
),

imported_blobs AS (
    INSERT INTO longhaul.blobs
    SELECT imported.*
    FROM json_populate_recordset(NULL::longhaul.blobs, $1::text::json -> 'blobs') AS imported
    ON CONFLICT DO NOTHING
)

-- Like every change of endpoints, so that a replica that was started too early reads them again.
UPDATE longhaul.endpoint_changes SET version = version + 1
