-- Lists all webhook endpoints page by page. Their secrets stay encrypted.
SELECT row_to_json(exported)::text FROM longhaul.endpoints AS exported
WHERE (tenant_id, id) > ($1::text, $2::text)
ORDER BY tenant_id, id
LIMIT $3::bigint
