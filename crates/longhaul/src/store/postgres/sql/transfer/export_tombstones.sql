-- Lists all tombstones page by page.
SELECT row_to_json(exported)::text FROM longhaul.tombstones AS exported
WHERE (tenant_id, id) > ($1::text, $2::text)
ORDER BY tenant_id, id
LIMIT $3::bigint
