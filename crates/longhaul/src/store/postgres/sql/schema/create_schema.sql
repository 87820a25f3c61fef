-- All of ours is in one schema: a database may hold other things, and removing us is one command.
CREATE SCHEMA IF NOT EXISTS longhaul
