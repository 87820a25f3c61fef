-- What should be deleted by now. Every replica deletes: twice is as good as once.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE delete_at <= $1::bigint
ORDER BY delete_at
LIMIT $2::bigint
