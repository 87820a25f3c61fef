-- Lists all API keys page by page, also revoked and expired ones, so that none of them becomes valid again.
SELECT row_to_json(exported)::text FROM longhaul.api_keys AS exported
WHERE id > $1::text
ORDER BY id
LIMIT $2::bigint
