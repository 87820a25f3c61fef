-- Returns those of the given blobs that are not recorded and whose job is finished or missing, so that no
-- attempt may be about to record them.
SELECT found.tenant_id, found.id, found.path
FROM unnest($1::text[], $2::text[], $3::text[]) AS found (tenant_id, id, path)
WHERE
    NOT EXISTS (
        SELECT FROM longhaul.blobs AS blob
        WHERE
            blob.tenant_id = found.tenant_id AND blob.id = found.id AND blob.path = found.path
            AND blob.deleted_at IS NULL
    )
    AND NOT EXISTS (
        SELECT FROM longhaul.jobs AS job
        LEFT JOIN longhaul.finished
            ON
                finished.tenant_id = job.tenant_id
                AND finished.status IN ('completed', 'failed', 'cancelled') AND finished.id = job.id
        WHERE job.tenant_id = found.tenant_id AND job.id = found.id AND finished.id IS NULL
    )
