-- Creates the table of applied migrations, which must exist before the first migration.
CREATE TABLE IF NOT EXISTS longhaul.migrations (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
