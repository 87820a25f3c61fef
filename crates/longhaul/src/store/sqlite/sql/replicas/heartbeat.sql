-- Records a heartbeat. Changes nothing while another process with the same name has sent a recent one,
-- because two processes with one name would appear as one in every list and hide the mistake.
INSERT INTO replicas (
    name, run, role, version, host, pid, process, kinds, running, concurrency, silent_after_ms, started_at,
    seen_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?12, ?7, ?8, ?9, ?10, ?11, ?11)
ON CONFLICT (name) DO UPDATE SET
    started_at = iif(run = excluded.run, started_at, excluded.started_at),
    run = excluded.run,
    role = excluded.role,
    version = excluded.version,
    host = excluded.host,
    pid = excluded.pid,
    process = excluded.process,
    kinds = excluded.kinds,
    running = excluded.running,
    concurrency = excluded.concurrency,
    silent_after_ms = excluded.silent_after_ms,
    seen_at = excluded.seen_at
WHERE run = excluded.run OR seen_at + silent_after_ms <= excluded.seen_at
