-- Which server process serves this connection. Process numbers come again, with another start.
SELECT pid, (extract(EPOCH FROM backend_start) * 1000000)::bigint
FROM pg_stat_get_activity(pg_backend_pid())
