-- Returns a row if any API key exists.
SELECT 1 FROM api_keys LIMIT 1
