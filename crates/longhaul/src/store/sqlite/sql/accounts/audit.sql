-- Lists the audit log, newest first.
SELECT id, at, tenant_id, actor, action, target, detail, request_id
FROM audit
WHERE id < ?1
ORDER BY id DESC
LIMIT ?2
