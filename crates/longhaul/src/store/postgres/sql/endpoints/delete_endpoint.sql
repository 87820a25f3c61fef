-- Deletes an endpoint and raises the version of endpoint changes, so that all replicas reload theirs.
WITH deleted AS (
    DELETE FROM longhaul.endpoints WHERE tenant_id = $1::text AND id = $2::text RETURNING id
)

UPDATE longhaul.endpoint_changes SET version = version + 1
FROM deleted
RETURNING deleted.id
