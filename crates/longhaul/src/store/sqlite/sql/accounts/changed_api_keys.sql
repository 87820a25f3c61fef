-- Keys that others changed lately, whose cached copies are stale.
SELECT id FROM api_keys WHERE changed_at >= ?1
