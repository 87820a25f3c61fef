-- Records a blob of a job. A repeated call, after a lost response, changes nothing.
INSERT INTO blobs (
    tenant_id, id, path, role, name, content_type, size, digest, wrapped_key, stored_at, stored_by
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT DO NOTHING
