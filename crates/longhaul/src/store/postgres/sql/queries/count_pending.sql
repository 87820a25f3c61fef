-- Counts a tenant's pending jobs up to a limit, because a submission waits for it. Reads only tables that
-- contain nothing but pending jobs.
SELECT count(*)
FROM (
    SELECT FROM longhaul.ready WHERE tenant_id = $1::text
    UNION ALL
    SELECT FROM longhaul.incoming WHERE tenant_id = $1::text
    LIMIT $2::bigint
) AS counted
