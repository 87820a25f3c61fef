-- Lists jobs that were never claimed and whose payload has expired. The upper bits of an epoch are the number of restores.
SELECT jobs.seq
FROM blobs INDEXED BY payloads_readable
INNER JOIN ready ON ready.tenant_id = blobs.tenant_id AND ready.id = blobs.id
INNER JOIN jobs ON jobs.seq = ready.seq
WHERE
    blobs.role = 'payload' AND blobs.wrapped_key IS NOT NULL AND blobs.stored_at <= ?1
    AND jobs.epoch & 4294967295 = 0
ORDER BY blobs.stored_at
LIMIT ?2
