-- Lists all enabled endpoints with the version of endpoint changes at which they were read. Replicas read
-- them again when that version has risen.
SELECT change.version, endpoint.tenant_id, endpoint.id, endpoint.events
FROM longhaul.endpoint_changes AS change
LEFT JOIN longhaul.endpoints AS endpoint ON endpoint.enabled
ORDER BY endpoint.tenant_id, endpoint.id
