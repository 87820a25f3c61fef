-- Finds the last job that a page of pending jobs may examine, of those in `ready` and those in `incoming`; none if fewer
-- are left in both. Each table has its own order and limit, so that both are read by their indexes and merged.
SELECT place.id
FROM (
    (
        SELECT id FROM longhaul.ready
        WHERE tenant_id = $1::text AND id < $2::text
        ORDER BY id DESC
        LIMIT $3::bigint + 1
    )
    UNION ALL
    (
        SELECT id FROM longhaul.incoming
        WHERE tenant_id = $1::text AND id < $2::text
        ORDER BY id DESC
        LIMIT $3::bigint + 1
    )
) AS place
ORDER BY place.id DESC
LIMIT 1 OFFSET $3::bigint
