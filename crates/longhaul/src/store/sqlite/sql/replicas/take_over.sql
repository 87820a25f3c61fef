-- Removes the replica of a process that has ended without deregistering. Removes nothing if another process has the
-- name by now.
DELETE FROM replicas WHERE name = ?1 AND run = ?2
