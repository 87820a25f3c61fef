-- Frees the idempotency key too.
DELETE FROM jobs WHERE seq = ?1
