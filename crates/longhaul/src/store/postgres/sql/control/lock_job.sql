-- Locks a job before it is read, so that a transaction that waited here reads the other one's writes.
SELECT FROM longhaul.jobs WHERE tenant_id = $1::text AND id = $2::text FOR UPDATE
