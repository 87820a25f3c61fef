-- Removes a replica that shuts down cleanly, so that its heartbeat need not time out.
DELETE FROM replicas WHERE name = ?1
