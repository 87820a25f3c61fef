-- Lists the work directories of one host, with paths from $1 up to but not including $2, that are not
-- recorded as deleted.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE
    role = 'folder' AND deleted_at IS NULL AND path >= $1::text COLLATE "C"
    AND path < $2::text COLLATE "C"
ORDER BY path
LIMIT $3::bigint
