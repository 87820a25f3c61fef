-- Lists the work directories of one host, from $1 to $2, that are not recorded as deleted.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE
    role = 'folder' AND deleted_at IS NULL AND path >= $1::text COLLATE "C"
    AND path < $2::text COLLATE "C"
ORDER BY path
LIMIT $3::bigint
