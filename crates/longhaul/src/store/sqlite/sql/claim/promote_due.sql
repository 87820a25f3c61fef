-- Makes due jobs ready by giving them a rank, so that claims never read scheduled jobs.
UPDATE ready SET rank = run_at - priority * ?3
WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM ready INDEXED BY ready_scheduled
    WHERE rank IS NULL AND paused = 0 AND run_at <= ?1
    ORDER BY run_at
    LIMIT ?2
)
