-- Deletes records of deleted blobs past their retention, once their job is gone. Bounded per call.
DELETE FROM longhaul.blobs AS blob
USING (
    SELECT tenant_id, id, path FROM longhaul.blobs AS old
    WHERE
        old.deleted_at <= $1::bigint
        AND NOT EXISTS (
            SELECT FROM longhaul.jobs AS job
            WHERE job.tenant_id = old.tenant_id AND job.id = old.id
        )
    ORDER BY old.deleted_at
    LIMIT $2::bigint
) AS gone
WHERE blob.tenant_id = gone.tenant_id AND blob.id = gone.id AND blob.path = gone.path
