-- Creates the schema that contains all objects of Longhaul, so that a shared database stays tidy and
-- removal is one command.
CREATE SCHEMA IF NOT EXISTS longhaul
