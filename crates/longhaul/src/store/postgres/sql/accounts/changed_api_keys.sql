-- Keys that others changed lately, whose cached copies are stale.
SELECT id FROM longhaul.api_keys WHERE changed_at >= $1
