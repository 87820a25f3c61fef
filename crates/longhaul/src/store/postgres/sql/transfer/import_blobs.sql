-- Imports blobs of imported jobs. Schedules the deletion of blobs whose key is destroyed but whose bytes
-- are not deleted yet.
INSERT INTO longhaul.blobs (
    tenant_id, id, path, role, name, content_type, size, digest, wrapped_key, stored_at, stored_by,
    key_destroyed_at, deleted_at, deleted_by, failures, failure, delete_at
)
SELECT
    tenant_id, id, path, role, name, content_type, size, digest, wrapped_key, stored_at, stored_by,
    key_destroyed_at, deleted_at, deleted_by, failures, failure,
    CASE WHEN role <> 'folder' AND wrapped_key IS NULL AND deleted_at IS NULL THEN stored_at END
FROM json_populate_recordset(NULL::longhaul.blobs, $1::text::json)
