-- Deletes records of deleted blobs past their retention, once their job is gone. Bounded per call.
DELETE FROM blobs WHERE (tenant_id, id, path) IN (
    SELECT tenant_id, id, path FROM blobs INDEXED BY blobs_deleted
    WHERE
        deleted_at <= ?1
        AND NOT EXISTS (
            SELECT 1 FROM jobs WHERE jobs.tenant_id = blobs.tenant_id AND jobs.id = blobs.id
        )
    ORDER BY deleted_at
    LIMIT ?2
)
