-- Lists the work directories of one host, with paths from `?1` up to but not including `?2`, that are not
-- recorded as deleted.
SELECT tenant_id, id, path FROM blobs INDEXED BY work_dirs_left
WHERE role = 'folder' AND deleted_at IS NULL AND path >= ?1 AND path < ?2
ORDER BY path
LIMIT ?3
