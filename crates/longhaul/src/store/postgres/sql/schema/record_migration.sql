-- Records a migration, in the migration's own transaction.
INSERT INTO longhaul.migrations (version) VALUES ($1::integer)
