-- Lists the blobs of a job, in the order in which they were stored.
SELECT
    role, path, name, content_type, size, digest, wrapped_key, stored_at, stored_by,
    key_destroyed_at, deleted_at, deleted_by, failures, failure
FROM blobs
WHERE tenant_id = ?1 AND id = ?2
ORDER BY stored_at, path
