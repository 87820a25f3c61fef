-- Submits a job in the caller's transaction. The caller has checked the kind.
SELECT longhaul.submit(
    kind => $1::text,
    input => $2::text::jsonb,
    tenant => $3::text,
    queue => $4::text,
    priority => $5::integer,
    run_at => to_timestamp($6::bigint / 1000.0),
    delay => make_interval(secs => $7::bigint / 1000.0),
    max_attempts => $8::integer,
    timeout => make_interval(secs => $9::bigint / 1000.0),
    idempotency_key => $10::text,
    labels => $11::text::jsonb,
    retention_completed => make_interval(secs => $12::bigint / 1000.0),
    retention_failed => make_interval(secs => $13::bigint / 1000.0),
    check_kind => false
)
