-- All endpoints that are told of something: read once, and again when one of them changes.
SELECT tenant_id, id, events FROM endpoints WHERE enabled ORDER BY tenant_id, id
