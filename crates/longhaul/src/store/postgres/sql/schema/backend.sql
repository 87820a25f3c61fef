-- Identifies the server process of this connection. Process ids are reused, so the start time is part of
-- it.
SELECT pid, (extract(EPOCH FROM backend_start) * 1000000)::bigint
FROM pg_stat_get_activity(pg_backend_pid())
