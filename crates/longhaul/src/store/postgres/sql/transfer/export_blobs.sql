-- Lists the records of all blobs page by page, also those of deleted jobs, whose receipts and pending deletions
-- depend on them.
SELECT row_to_json(exported)::text FROM longhaul.blobs AS exported
WHERE (tenant_id, id, path) > ($1::text, $2::text, $3::text)
ORDER BY tenant_id, id, path
LIMIT $4::bigint
