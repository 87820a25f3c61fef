-- Locks an endpoint before it is changed.
SELECT
    tenant_id, id, url, description, events, full_results, enabled, disabled_reason, secret,
    former_secret, former_until, created_at, changed_at
FROM longhaul.endpoints
WHERE tenant_id = $1::text AND id = $2::text
FOR UPDATE
