-- Reads the version of the last change of an endpoint.
SELECT version FROM longhaul.endpoint_changes
