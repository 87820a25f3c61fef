-- Inserts or replaces an endpoint.
INSERT OR REPLACE INTO endpoints (
    tenant_id, id, url, description, events, full_results, enabled, disabled_reason, secret,
    former_secret, former_until, created_at, changed_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
