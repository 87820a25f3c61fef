-- The time that everybody who uses this database goes by.
SELECT (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint
