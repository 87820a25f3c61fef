-- Decrements exactly the counters that include a job's lease, whatever the limits are by now.
UPDATE limit_counters SET running = max(running - 1, 0)
WHERE (scope, name) IN (
    SELECT 'kind', kind FROM jobs WHERE seq = ?1 AND instr(counted, 'kind') > 0
    UNION ALL
    SELECT 'queue', queue FROM jobs WHERE seq = ?1 AND instr(counted, 'queue') > 0
    UNION ALL
    SELECT 'tenant', tenant_id FROM jobs WHERE seq = ?1 AND instr(counted, 'tenant') > 0
)
