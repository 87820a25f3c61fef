-- A job has an input for as long as it is there.
SELECT input FROM longhaul.jobs WHERE tenant_id = $1::text AND id = $2::text
