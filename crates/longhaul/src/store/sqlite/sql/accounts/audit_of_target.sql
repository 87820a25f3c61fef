-- Lists the audit entries of one target, newest first.
SELECT id, at, tenant_id, actor, action, target, detail, request_id
FROM audit
WHERE target = ?3 AND (?4 IS NULL OR tenant_id = ?4) AND id < ?1
ORDER BY id DESC
LIMIT ?2
