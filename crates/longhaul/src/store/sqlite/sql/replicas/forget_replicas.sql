-- Removes replicas without a recent heartbeat. Names are often random, so every restart would leave a row
-- behind.
DELETE FROM replicas WHERE seen_at <= ?1
