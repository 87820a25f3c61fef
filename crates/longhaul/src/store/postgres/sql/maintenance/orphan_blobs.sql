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
        SELECT FROM longhaul.records AS job
        WHERE
            job.tenant_id = found.tenant_id AND job.id = found.id
            AND job.status NOT IN ('completed', 'failed', 'cancelled')
    )
