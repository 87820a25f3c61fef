-- Tells "was deleted" from "never was".
SELECT FROM longhaul.tombstones WHERE tenant_id = $1::text AND id = $2::text
