-- Lists all tenants page by page, with subscriptions and limits.
SELECT row_to_json(exported)::text FROM longhaul.tenants AS exported
WHERE id > $1::text
ORDER BY id
LIMIT $2::bigint
