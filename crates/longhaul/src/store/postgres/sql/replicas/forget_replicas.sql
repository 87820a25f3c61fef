-- Names are often random: without this every restart would leave a row behind for ever.
DELETE FROM longhaul.replicas WHERE seen_at <= $1::bigint
