-- Deletes shared leases whose jobs have all finished.
DELETE FROM longhaul.shared_leases AS lease
USING unnest($1::text[], $2::text[]) AS ended (tenant_id, last_id)
WHERE lease.tenant_id = ended.tenant_id AND lease.last_id = ended.last_id
