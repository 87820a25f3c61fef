-- Lists all enabled endpoints. Read once, and again after an endpoint changed.
SELECT tenant_id, id, events FROM endpoints WHERE enabled ORDER BY tenant_id, id
