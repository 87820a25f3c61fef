-- Of several replicas that start on an empty database, one at a time looks whether there is a key.
SELECT pg_advisory_xact_lock(5498425236)
