-- Records blobs as deleted and destroys their keys.
UPDATE longhaul.blobs AS blob SET
    deleted_at = $4::bigint, deleted_by = $5::text, delete_at = NULL, wrapped_key = NULL,
    key_destroyed_at = CASE
        WHEN blob.role <> 'folder' THEN coalesce(blob.key_destroyed_at, $4::bigint)
    END
FROM unnest($1::text[], $2::text[], $3::text[]) AS gone (tenant_id, id, path)
WHERE
    blob.tenant_id = gone.tenant_id AND blob.id = gone.id AND blob.path = gone.path
    AND blob.deleted_at IS NULL
