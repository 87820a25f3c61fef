-- When a key was last used. Other replicas may have seen it later.
UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1
