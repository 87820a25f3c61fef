-- Writes a changed job. The WHERE clause contains version and epoch, so that a row that changed since it
-- was read is never overwritten. A history of over 256 KiB keeps the whole lines of its newest 131,072
-- characters; if there are none, it keeps the new events only.
UPDATE jobs SET
    status = ?4, phase = ?5, rank = ?6, attempt = ?7, max_attempts = ?8, attempt_base = ?9,
    charge = ?10, epoch = ?11, replica = ?12, lease_until = ?13, version = ?14, progress = ?15,
    run_at = ?16, started_at = ?17, completed_at = ?18, expires_at = ?19,
    cancel_requested_at = ?20, error = ?21, code_version = ?22, paused = ?24, counted = ?25,
    artifacts = ?26, claimed_at = ?27, run_ms = ?28, metered = ?29, metered_steps = ?30,
    history = CASE
        WHEN ?23 IS NULL THEN history
        WHEN octet_length(history) <= 262144 THEN history || char(10) || ?23
        WHEN instr(substr(history, -131072), char(10)) = 0 THEN ?23
        ELSE substr(
            substr(history, -131072), instr(substr(history, -131072), char(10)) + 1
        ) || char(10) || ?23
    END
WHERE seq = ?1 AND version = ?2 AND epoch = ?3
