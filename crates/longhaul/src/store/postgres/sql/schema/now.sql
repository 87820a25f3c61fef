-- Reads the database's time, which all replicas use.
SELECT (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint
