-- Lists the work directories of one host, from `?1` to `?2`, that are not recorded as deleted.
SELECT tenant_id, id, path FROM blobs INDEXED BY work_dirs_left
WHERE role = 'folder' AND deleted_at IS NULL AND path >= ?1 AND path < ?2
ORDER BY path
LIMIT ?3
