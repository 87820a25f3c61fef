-- Records the last use of an API key, unless a later one is recorded.
UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1
