-- Lists the audit log page by page.
SELECT row_to_json(exported)::text FROM longhaul.audit AS exported
WHERE id > $1::text
ORDER BY id
LIMIT $2::bigint
