-- Lists blobs whose deletion is due.
SELECT tenant_id, id, path FROM blobs INDEXED BY blobs_to_delete
WHERE delete_at <= ?1
ORDER BY delete_at
LIMIT ?2
