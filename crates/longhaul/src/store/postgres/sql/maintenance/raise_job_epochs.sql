-- Raises the epochs of jobs that are not finished, after a restore. Running jobs are included, because an unreadable one
-- keeps its lease.
UPDATE longhaul.jobs AS job SET epoch = epoch + $1::bigint
WHERE NOT EXISTS (
    SELECT FROM longhaul.finished WHERE tenant_id = job.tenant_id AND id = job.id
)
