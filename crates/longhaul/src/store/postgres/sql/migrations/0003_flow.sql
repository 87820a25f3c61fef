-- What limits on queues, kinds and tenants count. Claims make a row when they first meet a scope that has
-- a limit; without limits nothing is written here. Each row is written by every claim and every end that
-- it counts: room on its page lets it stay there.
CREATE TABLE longhaul.flow (
    -- Jobs that run and were counted.
    running bigint NOT NULL,
    -- What is left of the scope's rate, in millionths of a job, as of `taken_at`; that is none if nothing
    -- was ever taken from it.
    parts bigint NOT NULL,
    taken_at bigint,
    -- 'kind', 'queue' or 'tenant'.
    scope text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, name)
) WITH (
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- The scopes that a lease is counted in, so that its end gives back just that.
ALTER TABLE longhaul.leases ADD COLUMN counted text;
