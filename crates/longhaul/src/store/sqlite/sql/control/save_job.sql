-- Writes a job that returns to the queue. The WHERE clause contains the version, so that a row that changed since it
-- was read is never overwritten.
UPDATE jobs SET
    version = ?3, attempt = ?4, max_attempts = ?5, attempt_base = ?6, charge = ?7, epoch = ?8,
    progress = ?9, run_at = ?10, started_at = ?11, cancel_requested_at = ?12, error = ?13,
    code_version = ?14, run_ms = ?15, metered = ?16, metered_steps = ?17, history = ?18
WHERE seq = ?1 AND version = ?2
