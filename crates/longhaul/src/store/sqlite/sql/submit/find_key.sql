-- Finds the job with an idempotency key.
SELECT seq FROM jobs WHERE tenant_id = ?1 AND idempotency_key = ?2
