-- Lists all API keys page by page, also revoked and expired ones, so that none of them becomes valid again.
SELECT * FROM api_keys
WHERE id > ?1
ORDER BY id
LIMIT ?2
