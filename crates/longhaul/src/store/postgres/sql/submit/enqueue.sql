-- Inserts one job into `ready` and lowers its lane's cursor if the job is due earlier.
WITH lowered_lanes AS (
    INSERT INTO longhaul.lanes (tenant_id, queue, kind, priority, due_at, active_at)
    VALUES ($1::text, $2::text, $3::text, $4::integer, $5::bigint, 0)
    ON CONFLICT (tenant_id, queue, kind, priority)
    DO UPDATE SET due_at = excluded.due_at WHERE lanes.due_at > excluded.due_at
)

INSERT INTO longhaul.ready (tenant_id, queue, kind, priority, run_at, id)
VALUES ($1::text, $2::text, $3::text, $4::integer, $5::bigint, $6::text)
