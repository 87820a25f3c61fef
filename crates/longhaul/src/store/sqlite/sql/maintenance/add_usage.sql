-- Adds usage to an hourly total, in the transaction that finishes the jobs.
INSERT INTO usage (
    tenant_id, hour, kind, key_id, jobs, run_ms, payload_bytes, steps, prompt_tokens,
    completion_tokens
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT DO UPDATE SET
    jobs = jobs + excluded.jobs, run_ms = run_ms + excluded.run_ms,
    payload_bytes = payload_bytes + excluded.payload_bytes, steps = steps + excluded.steps,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens
