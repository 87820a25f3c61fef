-- Records an event of the payment provider. Returns no row if it was recorded before.
INSERT INTO longhaul.billing_events (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING
RETURNING id
