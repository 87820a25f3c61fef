-- Lists the audit entries of a tenant, newest first.
SELECT id, at, tenant_id, actor, action, target, detail, request_id
FROM audit
WHERE tenant_id = ?3 AND id < ?1
ORDER BY id DESC
LIMIT ?2
