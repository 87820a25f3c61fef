-- Whoever stops in good order need not be waited for.
DELETE FROM longhaul.replicas WHERE name = $1::text
