-- Reads a job's input, which is kept as long as the job.
SELECT input FROM longhaul.jobs WHERE tenant_id = $1::text AND id = $2::text
