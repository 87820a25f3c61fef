-- Tenants that others changed lately, whose cached copies are stale.
SELECT id FROM longhaul.tenants WHERE changed_at >= $1
