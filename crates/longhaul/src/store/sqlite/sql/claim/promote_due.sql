-- Makes due jobs ready by giving them a rank, so that claims never read scheduled jobs.
UPDATE jobs SET rank = run_at - priority * ?3
WHERE seq IN (
    SELECT seq FROM jobs INDEXED BY jobs_scheduled
    WHERE status = 'pending' AND rank IS NULL AND paused = 0 AND run_at <= ?1
    ORDER BY run_at
    LIMIT ?2
)
