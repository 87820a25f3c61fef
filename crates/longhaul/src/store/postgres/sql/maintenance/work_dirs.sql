-- Folders of one host, $1 up to $2, that are not known to be deleted.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE
    role = 'folder' AND deleted_at IS NULL AND path >= $1::text COLLATE "C"
    AND path < $2::text COLLATE "C"
ORDER BY path
LIMIT $3::bigint
