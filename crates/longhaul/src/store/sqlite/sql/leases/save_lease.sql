-- Writes the changed state of a running job. The WHERE clause contains epoch and version, so that a lease that changed
-- since it was read is never overwritten. Events of over 256 KiB keep the whole lines of their newest 131,072
-- characters; if there are none, only the new events.
UPDATE leases SET
    version = ?4, phase = ?5, progress = ?6, cancel_requested_at = ?7,
    events = CASE
        WHEN ?8 IS NULL THEN events
        WHEN events IS NULL THEN ?8
        WHEN octet_length(events) <= 262144 THEN events || char(10) || ?8
        WHEN instr(substr(events, -131072), char(10)) = 0 THEN ?8
        ELSE substr(
            substr(events, -131072), instr(substr(events, -131072), char(10)) + 1
        ) || char(10) || ?8
    END
WHERE seq = ?1 AND version = ?2 AND epoch = ?3
