-- Lists the ids of all jobs page by page, to find those that the source does not have.
SELECT json_build_object('tenant_id', tenant_id, 'id', id)::text FROM longhaul.jobs
WHERE (tenant_id, id) > ($1::text, $2::text)
ORDER BY tenant_id, id
LIMIT $3::bigint
