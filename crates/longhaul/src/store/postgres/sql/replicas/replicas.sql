-- Lists replicas. Columns are in the order in which `replicas.rs` reads them.
SELECT
    name, run, role, version, host, pid, process, kinds, running, concurrency, silent_after_ms, started_at,
    seen_at
FROM longhaul.replicas
ORDER BY name
