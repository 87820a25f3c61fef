-- What a claim took whose answer was lost.
SELECT job.*, full_job.input, full_job.history
FROM longhaul.leases AS lease
INNER JOIN longhaul.entries AS job ON job.tenant_id = lease.tenant_id AND job.id = lease.id
INNER JOIN longhaul.jobs AS full_job
    ON full_job.tenant_id = lease.tenant_id AND full_job.id = lease.id
WHERE lease.replica = $1::text AND lease.claim = $2::bigint
