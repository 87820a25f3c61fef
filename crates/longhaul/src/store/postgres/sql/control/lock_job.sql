-- Locks a job before it is read: whoever waits here then sees what the one before has written.
SELECT FROM longhaul.jobs WHERE tenant_id = $1::text AND id = $2::text FOR UPDATE
