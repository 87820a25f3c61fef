-- Decrements exactly the counters that include a job's lease, whatever the limits are by now.
UPDATE limit_counters SET running = max(running - 1, 0)
WHERE (scope, name) IN (
    SELECT 'kind', jobs.kind FROM leases INNER JOIN jobs USING (seq)
    WHERE leases.seq = ?1 AND instr(leases.counted, 'kind') > 0
    UNION ALL
    SELECT 'queue', queue FROM leases WHERE seq = ?1 AND instr(counted, 'queue') > 0
    UNION ALL
    SELECT 'tenant', tenant_id FROM leases WHERE seq = ?1 AND instr(counted, 'tenant') > 0
)
