-- Tells "was deleted" from "never was".
SELECT 1 FROM tombstones WHERE tenant_id = ?1 AND id = ?2
