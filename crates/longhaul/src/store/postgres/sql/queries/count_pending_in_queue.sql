-- Counts pending jobs like `count_pending`, but of one queue. `incoming` has few rows, so its index by
-- tenant is enough.
SELECT count(*)
FROM (
    SELECT FROM longhaul.ready WHERE tenant_id = $1::text AND queue = $2::text
    UNION ALL
    SELECT FROM longhaul.incoming WHERE tenant_id = $1::text AND queue = $2::text
    LIMIT $3::bigint
) AS counted
