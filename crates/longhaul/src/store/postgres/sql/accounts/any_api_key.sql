-- Returns a row if any API key exists.
SELECT 1 FROM longhaul.api_keys LIMIT 1
