-- Splits the shared leases of these jobs. Returns the number of leases that took their place; NULL if there is none.
SELECT longhaul.split_leases(array_agg(lease.tenant_id), array_agg(lease.last_id))
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT tenant_id, last_id FROM longhaul.shared_leases
    WHERE
        tenant_id = wanted.tenant_id AND last_id >= wanted.id AND first_id <= wanted.id
        AND strpos(ids, wanted.id) > 0
    LIMIT 1
) AS lease
