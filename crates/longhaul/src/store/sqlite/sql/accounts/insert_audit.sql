-- Appends an audit entry. A repeated entry changes nothing.
INSERT INTO audit (id, at, tenant_id, actor, action, target, detail, request_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (id) DO NOTHING
