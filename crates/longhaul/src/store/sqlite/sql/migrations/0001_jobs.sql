-- The first shape of the database. Inputs, results and steps live apart from `jobs`, because every
-- transition rewrites the job's row; `history` comes last, so that reading the rest never walks it.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT,
    priority INTEGER NOT NULL,
    -- The place in line, set only while pending, due and not paused: `run_at` less a minute per point
    -- of priority. It never changes while a job waits, so ageing costs nothing and nothing starves.
    rank INTEGER,
    -- Whether the job is pending in a queue that is paused, or was set aside.
    paused INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    -- Attempts that were used up before the last resume.
    attempt_base INTEGER NOT NULL,
    -- Whether the next claim counts as a further attempt.
    charge INTEGER NOT NULL DEFAULT 1,
    epoch INTEGER NOT NULL,
    replica TEXT,
    -- When the lease ends; none while nobody holds one.
    lease_until INTEGER,
    version INTEGER NOT NULL,
    progress TEXT,
    labels TEXT NOT NULL,
    idempotency_key TEXT,
    fingerprint BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    expires_at INTEGER,
    timeout_ms INTEGER,
    retention_completed_ms INTEGER NOT NULL,
    retention_failed_ms INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    error TEXT,
    code_version TEXT,
    forked_from TEXT,
    parent_id TEXT,
    -- Whether it was submitted with a payload.
    has_payload INTEGER NOT NULL,
    -- What it produced, as JSON; none until it completes.
    artifacts TEXT,
    -- One JSON event a line, oldest first.
    history TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX jobs_id ON jobs (tenant_id, id);
CREATE UNIQUE INDEX jobs_key ON jobs (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;
-- What claims walk: it holds nothing that is finished, running, paused or not due. The kind comes
-- first, because a claim names the kinds it has room for and must not pay for the others; the queue
-- is not in it, so that a tenant's queues, however many, cost a claim nothing.
CREATE INDEX jobs_in_line ON jobs (kind, tenant_id, rank, id) WHERE rank IS NOT NULL;
CREATE INDEX jobs_later ON jobs (run_at)
WHERE status = 'pending' AND rank IS NULL AND paused = 0;
-- For counting, pausing and resuming a queue.
CREATE INDEX jobs_pending ON jobs (tenant_id, queue, run_at) WHERE status = 'pending';
CREATE INDEX jobs_leased ON jobs (lease_until, tenant_id, queue) WHERE status = 'running';
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX jobs_status ON jobs (tenant_id, status, id);

CREATE TABLE inputs (seq INTEGER PRIMARY KEY, input TEXT NOT NULL) STRICT;

CREATE TABLE results (seq INTEGER PRIMARY KEY, result TEXT NOT NULL) STRICT;

CREATE TABLE steps (
    step_seq INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    output TEXT NOT NULL,
    alone INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    completed_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX steps_name ON steps (seq, name);

CREATE TABLE paused_queues (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

-- Ids of deleted jobs, so that asking for one answers "gone" instead of "never was".
CREATE TABLE tombstones (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    gone_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_gone_at ON tombstones (gone_at);
