-- Gives a key an end, unless it ends before.
UPDATE longhaul.api_keys
SET expires_at = least(coalesce(expires_at, $2), $2), changed_at = $3
WHERE id = $1
RETURNING id
