-- Which migrations were applied: has to be there before the first of them.
CREATE TABLE IF NOT EXISTS longhaul.migrations (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
