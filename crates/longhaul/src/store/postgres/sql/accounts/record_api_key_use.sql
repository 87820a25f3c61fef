-- Records the last use of API keys. Another replica may have recorded a later one.
UPDATE longhaul.api_keys AS known
SET last_used_at = greatest(coalesce(known.last_used_at, used.at), used.at)
FROM unnest($1::text[], $2::bigint[]) AS used (id, at)
WHERE known.id = used.id
