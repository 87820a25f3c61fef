-- Records failed deletions. The next attempt is due after $5, which doubles with every failure up to $6.
UPDATE longhaul.blobs AS blob SET
    failures = blob.failures + 1, failure = kept.failure,
    delete_at = $7::bigint + least($5::bigint << least(blob.failures, 20), $6::bigint)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS kept (tenant_id, id, path, failure)
WHERE
    blob.tenant_id = kept.tenant_id AND blob.id = kept.id AND blob.path = kept.path
    AND blob.deleted_at IS NULL
