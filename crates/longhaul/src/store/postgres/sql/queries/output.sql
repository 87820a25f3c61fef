-- Reads all output streams that are read on a replica in one statement, each from its position on: those of
-- the newest attempt only, and from its start if the reader does not know it yet. A claimed attempt that
-- has written nothing replaces the previous one, too.
SELECT
    asked.tenant_id, asked.id, greatest(lease.epoch, written.epoch), coalesce(part.first, 0),
    coalesce(part.chunks, '[]')
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    AS asked (tenant_id, id, epoch, first)
LEFT JOIN LATERAL (
    SELECT epoch FROM longhaul.records
    WHERE tenant_id = asked.tenant_id AND id = asked.id AND status = 'running'
    LIMIT 1
) AS lease ON true
LEFT JOIN LATERAL (
    SELECT epoch FROM longhaul.output_chunks
    WHERE tenant_id = asked.tenant_id AND id = asked.id AND epoch >= asked.epoch
    ORDER BY epoch DESC
    LIMIT 1
) AS written ON true
LEFT JOIN LATERAL (
    SELECT first, chunks FROM longhaul.output_chunks
    WHERE
        tenant_id = asked.tenant_id AND id = asked.id
        AND epoch = greatest(lease.epoch, written.epoch)
        AND first >= CASE
            WHEN asked.epoch = greatest(lease.epoch, written.epoch) THEN asked.first ELSE 0
        END
    ORDER BY first
    LIMIT $5::bigint
) AS part ON true
WHERE part.first IS NOT NULL OR greatest(lease.epoch, written.epoch) > asked.epoch
