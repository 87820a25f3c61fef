-- What should be deleted by now.
SELECT tenant_id, id, path FROM blobs INDEXED BY blobs_to_bury
WHERE bury_at <= ?1
ORDER BY bury_at
LIMIT ?2
