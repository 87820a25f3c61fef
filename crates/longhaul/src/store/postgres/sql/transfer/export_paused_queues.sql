-- Lists all paused queues page by page.
SELECT row_to_json(exported)::text FROM longhaul.paused_queues AS exported
WHERE (tenant_id, name) > ($1::text, $2::text)
ORDER BY tenant_id, name
LIMIT $3::bigint
