-- Deletes an endpoint.
DELETE FROM endpoints WHERE tenant_id = ?1 AND id = ?2
