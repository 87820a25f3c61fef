-- What should be deleted by now. Every replica deletes: twice is as good as once.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE bury_at <= $1::bigint
ORDER BY bury_at
LIMIT $2::bigint
