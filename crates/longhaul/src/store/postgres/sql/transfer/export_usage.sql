-- Lists all usage that was copied from a file page by page.
SELECT row_to_json(exported)::text FROM longhaul.usage AS exported
WHERE
    origin <> ''
    AND (tenant_id, hour, kind, key_id, origin)
    > ($1::text, $2::text::bigint, $3::text, $4::text, $5::text)
ORDER BY tenant_id, hour, kind, key_id, origin
LIMIT $6::bigint
