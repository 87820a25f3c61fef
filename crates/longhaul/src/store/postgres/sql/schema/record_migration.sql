-- In the transaction of the migration itself.
INSERT INTO longhaul.migrations (version) VALUES ($1::integer)
