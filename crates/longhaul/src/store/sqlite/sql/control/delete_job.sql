-- Deletes a job, which also frees its idempotency key.
DELETE FROM jobs WHERE seq = ?1
