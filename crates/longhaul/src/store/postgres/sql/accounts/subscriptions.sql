-- All endpoints that are told of something, and the number of the change that they were read after: read
-- again when that has risen.
SELECT change.version, endpoint.tenant_id, endpoint.id, endpoint.events
FROM longhaul.endpoint_changes AS change
LEFT JOIN longhaul.endpoints AS endpoint ON endpoint.enabled
ORDER BY endpoint.tenant_id, endpoint.id
