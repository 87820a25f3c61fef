-- Counts by tables that hold nothing else, and no further than asked: a submission waits for it.
SELECT count(*)
FROM (
    SELECT FROM longhaul.ready WHERE tenant_id = $1::text
    UNION ALL
    SELECT FROM longhaul.incoming WHERE tenant_id = $1::text
    LIMIT $2::bigint
) AS counted
