-- Lists jobs of every status, newest first. Filters that are NULL match everything.
SELECT id FROM longhaul.jobs
WHERE
    tenant_id = $1::text AND id < $2::text AND id >= $8::text
    AND ($3::text IS NULL OR kind = $3::text)
    AND ($4::text IS NULL OR queue = $4::text)
    AND ($5::bigint IS NULL OR created_at >= $5::bigint)
    AND ($6::text IS NULL OR labels @> $6::text::jsonb)
ORDER BY id DESC
LIMIT $7::bigint
