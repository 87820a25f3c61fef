-- Serializes the creation of the first key, because several replicas may start on an empty database.
SELECT pg_advisory_xact_lock(5498425236)
