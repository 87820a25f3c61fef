-- Lists jobs that were never claimed and whose payload has expired. The upper bits of an epoch are the number of restores.
SELECT blob.tenant_id, blob.id
FROM longhaul.blobs AS blob
CROSS JOIN LATERAL (
    SELECT FROM longhaul.records AS job
    WHERE
        job.tenant_id = blob.tenant_id AND job.id = blob.id AND job.status = 'pending'
        AND job.epoch & 4294967295 = 0
    LIMIT 1
) AS job
WHERE blob.role = 'payload' AND blob.wrapped_key IS NOT NULL AND blob.stored_at <= $1::bigint
ORDER BY blob.stored_at
LIMIT $2::bigint
