-- Who uses the database. A SQLite file has one process at a time: at open, all rows are of dead ones.
CREATE TABLE replicas (
    name TEXT PRIMARY KEY,
    -- Tells a process from another one that was given the same name.
    run INTEGER NOT NULL,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    -- A JSON list of names.
    kinds TEXT NOT NULL,
    running INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    silent_after_ms INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
