-- Deletes the chunks of output streams before a position. Not synced, like `append_output`.
DELETE FROM longhaul.output_chunks AS stored
USING unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS kept (tenant_id, id, epoch, first)
WHERE
    stored.tenant_id = kept.tenant_id AND stored.id = kept.id AND stored.epoch = kept.epoch
    AND stored.first < kept.first
    AND set_config('synchronous_commit', 'off', true) IS NOT NULL
