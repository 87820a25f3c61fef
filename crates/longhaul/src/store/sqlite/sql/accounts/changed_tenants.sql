-- Lists tenants that changed recently, because cached copies of them are stale.
SELECT id FROM tenants WHERE changed_at >= ?1
