-- The same key under another of the server's keys.
UPDATE longhaul.api_keys SET server_key = $2, digest = $3 WHERE id = $1
