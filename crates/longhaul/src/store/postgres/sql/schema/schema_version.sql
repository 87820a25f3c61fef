-- Reads the newest applied migration.
SELECT coalesce(max(version), 0) FROM longhaul.migrations
