-- Removes a pending job from `ready` or `incoming`. Returns no row if a claim has taken the job, or if it
-- is just being moved to `ready`.
WITH place AS (
    DELETE FROM longhaul.ready
    WHERE
        tenant_id = $1::text AND queue = $2::text AND kind = $3::text AND priority = $4::integer
        AND run_at = $5::bigint AND id = $6::text
    RETURNING id
),

arrival AS (
    DELETE FROM longhaul.incoming WHERE tenant_id = $1::text AND id = $6::text
    RETURNING id
)

SELECT id FROM place
UNION ALL
SELECT id FROM arrival
