-- An event of the payment provider, once.
INSERT INTO longhaul.billing_events (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING
RETURNING id
