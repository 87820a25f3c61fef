-- Lists pending or waiting jobs, newest first, without walking those that have ended. Filters that are NULL
-- match everything.
SELECT id FROM longhaul.jobs AS job
WHERE
    tenant_id = $1::text AND id < $2::text
    AND status = $8::text AND status IN ('pending', 'waiting')
    AND ($3::text IS NULL OR kind = $3::text)
    AND ($4::text IS NULL OR queue = $4::text)
    AND ($5::bigint IS NULL OR created_at >= $5::bigint)
    AND ($6::text IS NULL OR labels @> $6::text::jsonb)
    AND NOT EXISTS (
        SELECT FROM longhaul.leases AS lease
        WHERE lease.tenant_id = job.tenant_id AND lease.id = job.id
    )
ORDER BY id DESC
LIMIT $7::bigint
