-- Lists the audit log page by page.
SELECT * FROM audit
WHERE id > ?1
ORDER BY id
LIMIT ?2
