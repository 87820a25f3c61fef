-- What limits on queues, kinds and tenants count. Claims make a row when they first meet a scope that has
-- a limit; without limits nothing is written here.
CREATE TABLE flow (
    -- 'kind', 'queue' or 'tenant'.
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Jobs that run and were counted.
    running INTEGER NOT NULL,
    -- What is left of the scope's rate, in millionths of a job, as of `taken_at`; that is none if nothing
    -- was ever taken from it.
    parts INTEGER NOT NULL,
    taken_at INTEGER,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- The scopes that a running job is counted in, so that its end gives back just that. It comes after the
-- history, which is no harm: none is stored without a byte.
ALTER TABLE jobs ADD COLUMN counted TEXT;
