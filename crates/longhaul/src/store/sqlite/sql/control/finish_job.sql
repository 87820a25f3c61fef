-- Writes the final state of a job.
INSERT INTO finished (
    seq, tenant_id, id, status, epoch, version, attempt, replica, claimed_at, started_at, completed_at,
    expires_at, cancel_requested_at, metered_steps, code_version, progress, error, artifacts, result,
    events
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20
)
