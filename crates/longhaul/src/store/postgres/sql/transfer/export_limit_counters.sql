-- Lists the limit counters page by page.
SELECT row_to_json(exported)::text FROM longhaul.limit_counters AS exported
WHERE (scope, name) > ($1::text, $2::text)
ORDER BY scope, name
LIMIT $3::bigint
