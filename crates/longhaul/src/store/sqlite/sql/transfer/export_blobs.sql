-- Lists the records of all blobs page by page, also those of deleted jobs, whose receipts and pending deletions depend
-- on them.
SELECT * FROM blobs
WHERE (tenant_id, id, path) > (?1, ?2, ?3)
ORDER BY tenant_id, id, path
LIMIT ?4
