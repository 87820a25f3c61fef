-- Returns the jobs of an earlier claim whose response was lost.
SELECT job.*
FROM longhaul.leases AS lease
CROSS JOIN LATERAL (
    SELECT * FROM longhaul.records
    WHERE tenant_id = lease.tenant_id AND id = lease.id
    LIMIT 1
) AS job
WHERE lease.replica = $1::text AND lease.claim = $2::bigint
