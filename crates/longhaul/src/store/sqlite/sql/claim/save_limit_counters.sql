-- Writes a counter that a claim changed, in the claim's transaction.
INSERT INTO limit_counters (scope, name, running, parts, taken_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope, name) DO UPDATE SET
    running = excluded.running, parts = excluded.parts, taken_at = excluded.taken_at
