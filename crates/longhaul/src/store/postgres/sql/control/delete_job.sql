-- Deletes a job that finished with status $4, with all its rows, leaves a tombstone with its id only, and frees
-- its idempotency key.
WITH gone AS (
    DELETE FROM longhaul.jobs WHERE tenant_id = $1::text AND id = $2::text
    RETURNING tenant_id, id
),

state_gone AS (
    DELETE FROM longhaul.finished WHERE tenant_id = $1::text AND status = $4::text AND id = $2::text
),

doomed AS (
    UPDATE longhaul.blobs AS blob SET
        wrapped_key = NULL,
        key_destroyed_at = CASE
            WHEN blob.role <> 'folder' THEN coalesce(blob.key_destroyed_at, $3::bigint)
        END,
        delete_at = CASE
            WHEN blob.role <> 'folder' AND blob.deleted_at IS NULL
                THEN coalesce(blob.delete_at, $3::bigint)
        END
    FROM gone
    WHERE blob.tenant_id = gone.tenant_id AND blob.id = gone.id
),

steps_gone AS (
    DELETE FROM longhaul.steps WHERE tenant_id = $1::text AND id = $2::text
)

INSERT INTO longhaul.tombstones (tenant_id, id, gone_at)
SELECT tenant_id, id, $3::bigint FROM gone
ON CONFLICT (tenant_id, id) DO UPDATE SET gone_at = excluded.gone_at
