-- Records an event of the payment provider. Changes nothing if it was recorded before.
INSERT INTO billing_events (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING
