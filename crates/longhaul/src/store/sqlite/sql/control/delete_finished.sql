-- Deletes the final state of a job that is deleted or returns to the queue.
DELETE FROM finished WHERE seq = ?1
