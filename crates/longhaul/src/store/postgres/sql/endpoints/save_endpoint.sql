-- Inserts or replaces an endpoint and raises the version of endpoint changes, so that all replicas reload
-- theirs.
WITH saved AS (
    INSERT INTO longhaul.endpoints (
        tenant_id, id, url, description, events, full_results, enabled, disabled_reason, secret,
        former_secret, former_until, created_at, changed_at
    )
    VALUES (
        $1::text, $2::text, $3::text, $4::text, $5::text, $6::boolean, $7::boolean, $8::text, $9::text,
        $10::text, $11::bigint, $12::bigint, $13::bigint
    )
    ON CONFLICT (tenant_id, id) DO UPDATE SET
        url = excluded.url, description = excluded.description, events = excluded.events,
        full_results = excluded.full_results, enabled = excluded.enabled,
        disabled_reason = excluded.disabled_reason, secret = excluded.secret,
        former_secret = excluded.former_secret, former_until = excluded.former_until,
        changed_at = excluded.changed_at
)

UPDATE longhaul.endpoint_changes SET version = version + 1
