-- Deletes the output streams of attempts that have ended. Steps from stream to stream through the index, so
-- that the cost depends on the number of streams and not of chunks.
WITH RECURSIVE streams AS (
    (
        SELECT tenant_id, id, epoch FROM longhaul.output_chunks
        ORDER BY tenant_id, id, epoch
        LIMIT 1
    )
    UNION ALL
    SELECT next.tenant_id, next.id, next.epoch
    FROM streams
    CROSS JOIN LATERAL (
        SELECT later.tenant_id, later.id, later.epoch FROM longhaul.output_chunks AS later
        WHERE (later.tenant_id, later.id, later.epoch) > (streams.tenant_id, streams.id, streams.epoch)
        ORDER BY later.tenant_id, later.id, later.epoch
        LIMIT 1
    ) AS next
),

ended AS (
    SELECT streams.tenant_id, streams.id, streams.epoch FROM streams
    WHERE NOT EXISTS (
        SELECT FROM longhaul.leases AS lease
        WHERE
            lease.tenant_id = streams.tenant_id AND lease.id = streams.id
            AND lease.epoch = streams.epoch
    )
    LIMIT $1::bigint
),

deleted AS (
    DELETE FROM longhaul.output_chunks AS stored
    USING ended
    WHERE
        stored.tenant_id = ended.tenant_id AND stored.id = ended.id AND stored.epoch = ended.epoch
)

SELECT count(*) FROM ended
