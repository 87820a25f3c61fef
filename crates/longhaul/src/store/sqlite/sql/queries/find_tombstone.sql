-- Distinguishes a deleted job from one that never existed.
SELECT 1 FROM tombstones WHERE tenant_id = ?1 AND id = ?2
