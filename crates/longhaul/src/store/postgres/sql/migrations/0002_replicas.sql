-- Who uses the database.
CREATE TABLE longhaul.replicas (
    name text COLLATE "C" PRIMARY KEY,
    -- Tells a process from another one that was given the same name.
    run bigint NOT NULL,
    role text NOT NULL,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    -- A JSON list of names.
    kinds text NOT NULL,
    running bigint NOT NULL,
    concurrency bigint NOT NULL,
    silent_after_ms bigint NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL
);
