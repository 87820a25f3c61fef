-- Lists blobs whose deletion is due. Every replica deletes, because deleting twice does no harm.
SELECT tenant_id, id, path FROM longhaul.blobs
WHERE delete_at <= $1::bigint
ORDER BY delete_at
LIMIT $2::bigint
