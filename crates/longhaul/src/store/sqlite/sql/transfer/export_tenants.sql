-- Lists all tenants page by page, with subscriptions and limits.
SELECT * FROM tenants
WHERE id > ?1
ORDER BY id
LIMIT ?2
