-- Lists all webhook endpoints page by page. Their secrets stay encrypted.
SELECT * FROM endpoints
WHERE (tenant_id, id) > (?1, ?2)
ORDER BY tenant_id, id
LIMIT ?3
