-- Finds a step by name, because its position may differ between attempts that run steps concurrently.
SELECT position FROM longhaul.steps
WHERE tenant_id = $1::text AND id = $2::text AND name = $3::text
