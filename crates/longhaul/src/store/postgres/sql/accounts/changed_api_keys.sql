-- Lists API keys that any replica changed recently, because cached copies of them are stale.
SELECT id FROM longhaul.api_keys WHERE changed_at >= $1
