-- Reads the database's time, and by how many milliseconds it is ahead of the live replica whose clock agrees best with
-- it, or NULL if there is none. A heartbeat from before a step of the database's clock does not count.
SELECT
    clock.now_ms,
    (
        SELECT known.received_at - known.seen_at FROM longhaul.replicas AS known
        WHERE known.received_at > clock.now_ms - 15000 AND known.received_at <= clock.now_ms
        ORDER BY abs(known.received_at - known.seen_at)
        LIMIT 1
    )
FROM (SELECT (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS clock
