-- A step is its name: its position may differ between attempts that run steps at once.
SELECT position FROM longhaul.steps
WHERE tenant_id = $1::text AND id = $2::text AND name = $3::text
