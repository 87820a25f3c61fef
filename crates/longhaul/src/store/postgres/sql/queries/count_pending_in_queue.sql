-- As pending.sql, in one queue. Arrivals are few: they have an index by tenant alone.
SELECT count(*)
FROM (
    SELECT FROM longhaul.ready WHERE tenant_id = $1::text AND queue = $2::text
    UNION ALL
    SELECT FROM longhaul.incoming WHERE tenant_id = $1::text AND queue = $2::text
    LIMIT $3::bigint
) AS counted
