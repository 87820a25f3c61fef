-- Whether there is a key at all.
SELECT 1 FROM longhaul.api_keys LIMIT 1
