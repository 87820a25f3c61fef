-- Lists all tombstones page by page.
SELECT * FROM tombstones
WHERE (tenant_id, id) > (?1, ?2)
ORDER BY tenant_id, id
LIMIT ?3
