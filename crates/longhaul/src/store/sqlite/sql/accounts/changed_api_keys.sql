-- Lists API keys that changed recently, because cached copies of them are stale.
SELECT id FROM api_keys WHERE changed_at >= ?1
