-- Lists jobs that were never claimed and whose payload has expired.
SELECT jobs.seq
FROM blobs INDEXED BY payloads_readable
INNER JOIN jobs ON jobs.tenant_id = blobs.tenant_id AND jobs.id = blobs.id
WHERE
    blobs.role = 'payload' AND blobs.wrapped_key IS NOT NULL AND blobs.stored_at <= ?1
    AND jobs.status = 'pending' AND jobs.epoch = 0
ORDER BY blobs.stored_at
LIMIT ?2
