-- Lists all usage page by page, with the id of this file, so that the target can distinguish it from its own.
SELECT usage.*, origin.id AS origin FROM usage
CROSS JOIN origin
WHERE (usage.tenant_id, usage.hour, usage.kind, usage.key_id, origin.id) > (?1, CAST(?2 AS INTEGER), ?3, ?4, ?5)
ORDER BY usage.tenant_id, usage.hour, usage.kind, usage.key_id
LIMIT ?6
