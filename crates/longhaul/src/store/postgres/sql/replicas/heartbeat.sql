-- Records a heartbeat. Changes nothing while another process with the same name has sent a recent one,
-- because two processes with one name would appear as one in every list and hide the mistake.
INSERT INTO longhaul.replicas AS known (
    name, run, role, version, host, pid, process, kinds, running, concurrency, silent_after_ms,
    started_at, seen_at, received_at
)
VALUES (
    $1::text, $2::bigint, $3::text, $4::text, $5::text, $6::bigint, $12::text, $7::text, $8::bigint,
    $9::bigint, $10::bigint, $11::bigint, $11::bigint,
    (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint
)
ON CONFLICT (name) DO UPDATE SET
    started_at = CASE
        WHEN known.run = excluded.run THEN known.started_at ELSE excluded.started_at
    END,
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
    seen_at = excluded.seen_at,
    received_at = excluded.received_at
WHERE known.run = excluded.run OR known.seen_at + known.silent_after_ms <= excluded.seen_at
RETURNING (
    SELECT count(*) FROM longhaul.replicas AS other
    WHERE other.name <> known.name AND other.seen_at + other.silent_after_ms > $11::bigint
)
