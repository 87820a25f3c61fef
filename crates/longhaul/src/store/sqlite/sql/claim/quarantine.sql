-- Quarantines an unreadable job that is pending, so that claims do not read it.
UPDATE ready SET rank = NULL, paused = 1
WHERE (tenant_id, id) IN (SELECT tenant_id, id FROM jobs WHERE seq = ?1)
RETURNING tenant_id, id
