-- Distinguishes a deleted job from one that never existed.
SELECT FROM longhaul.tombstones WHERE tenant_id = $1::text AND id = $2::text
