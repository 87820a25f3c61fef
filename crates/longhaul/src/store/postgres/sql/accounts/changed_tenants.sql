-- Lists tenants that any replica changed recently, because cached copies of them are stale.
SELECT id FROM longhaul.tenants WHERE changed_at >= $1
