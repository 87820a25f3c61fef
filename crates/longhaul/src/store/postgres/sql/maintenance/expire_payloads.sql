-- Destroys the keys of finished jobs' payloads, so that they are unreadable even before their bytes are
-- deleted.
UPDATE longhaul.blobs AS blob SET
    wrapped_key = NULL, key_destroyed_at = $3::bigint, delete_at = $3::bigint
FROM unnest($1::text[], $2::text[]) AS ended (tenant_id, id)
WHERE
    blob.tenant_id = ended.tenant_id AND blob.id = ended.id AND blob.role = 'payload'
    AND blob.wrapped_key IS NOT NULL
