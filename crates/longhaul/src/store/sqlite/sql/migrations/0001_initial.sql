-- The schema.
--
-- A job is a row in `jobs`. While it is pending it also has a narrow row in `ready`, while it runs one in `leases`, and
-- when it has finished one in `finished`. `jobs` is written when a job is accepted and when it returns to the queue, and
-- does not change when it is claimed or finishes. The view `records` joins the tables.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    -- Attempts used before the last resume.
    attempt_base INTEGER NOT NULL,
    -- 1 if the next claim charges an attempt.
    charge INTEGER NOT NULL DEFAULT 1,
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    progress TEXT,
    labels TEXT NOT NULL,
    idempotency_key TEXT,
    fingerprint BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    started_at INTEGER,
    timeout_ms INTEGER,
    retention_completed_ms INTEGER NOT NULL,
    retention_failed_ms INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    error TEXT,
    code_version TEXT,
    forked_from TEXT,
    parent_id TEXT,
    -- 1 if it was submitted with a payload.
    has_payload INTEGER NOT NULL,
    -- The API key that submitted it.
    key_id TEXT,
    -- Run time of attempts since the job was last metered.
    run_ms INTEGER NOT NULL DEFAULT 0,
    payload_bytes INTEGER NOT NULL DEFAULT 0,
    metered INTEGER NOT NULL DEFAULT 0,
    -- Steps that are already metered, or that a fork began with.
    metered_steps INTEGER NOT NULL DEFAULT 0,
    -- The job's own webhook, as JSON.
    webhook TEXT,
    -- NULL if the input is in `inputs`.
    input TEXT,
    -- Events before the last claim, one JSON object per line, oldest first; NULL before the first attempt has ended.
    -- The last column, so that reading the others never reads its overflow pages.
    history TEXT
) STRICT;

CREATE UNIQUE INDEX jobs_id ON jobs (tenant_id, id);
CREATE UNIQUE INDEX jobs_key ON jobs (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;
-- For the deliveries of a job.
CREATE INDEX jobs_of_parent ON jobs (tenant_id, parent_id, id) WHERE parent_id IS NOT NULL;

-- Inputs that are too long for `jobs`, because a job that returns to the queue rewrites its row.
CREATE TABLE inputs (seq INTEGER PRIMARY KEY, input TEXT NOT NULL) STRICT;

-- The queue of pending jobs.
CREATE TABLE ready (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    -- The order of claims: `run_at` minus one minute per point of priority. Set only while the job is due and not
    -- paused. It does not change while a job is pending, so ageing costs nothing and no job starves.
    rank INTEGER,
    -- 1 if the job is in a paused queue, or quarantined.
    paused INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

-- Claims seek in this index: it contains no paused or scheduled job. The kind comes first, because a claim names its
-- kinds and must not pay for others. The queue is not part of it, so that the number of a tenant's queues costs a claim
-- nothing.
CREATE INDEX ready_by_rank ON ready (kind, tenant_id, rank, id, seq) WHERE rank IS NOT NULL;
-- Claims of deliveries go queue by queue, because each endpoint has one. Only outboxes are in this index.
CREATE INDEX ready_in_outboxes ON ready (kind, tenant_id, queue, rank, id, seq)
WHERE rank IS NOT NULL AND tenant_id >= '~';
CREATE INDEX ready_scheduled ON ready (run_at) WHERE rank IS NULL AND paused = 0;
-- For counting, pausing and resuming a queue.
CREATE INDEX ready_by_queue ON ready (tenant_id, queue, run_at);

-- The state of running jobs. Not indexed by expiry, tenant or queue, because it has few rows: no more than the replica
-- has slots.
CREATE TABLE leases (
    seq INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    replica TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    -- NULL if the job is quarantined.
    lease_until INTEGER,
    started_at INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    queue TEXT NOT NULL,
    code_version TEXT,
    -- The scopes whose limit counters include this job, so that its end decrements exactly those.
    counted TEXT,
    phase TEXT,
    progress TEXT,
    -- Events since the claim, one JSON object per line; NULL if there are none.
    events TEXT
) STRICT;

-- The final states of finished jobs, each written once. The row of a job in `jobs` is left as it was before its last
-- attempt.
CREATE TABLE finished (
    seq INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    -- 'completed', 'failed' or 'cancelled'.
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- The replica and the time of the last claim; NULL if the job was not running when it finished.
    replica TEXT,
    claimed_at INTEGER,
    started_at INTEGER,
    completed_at INTEGER NOT NULL,
    expires_at INTEGER,
    cancel_requested_at INTEGER,
    -- Steps that are metered.
    metered_steps INTEGER NOT NULL,
    code_version TEXT,
    progress TEXT,
    error TEXT,
    -- A JSON list.
    artifacts TEXT,
    result TEXT,
    -- Events since the last claim, one JSON object per line; NULL if there is only the final one, which follows from
    -- the other columns.
    events TEXT
) STRICT;

CREATE INDEX finished_by_status ON finished (tenant_id, status, id);
CREATE INDEX finished_expiring ON finished (expires_at) WHERE expires_at IS NOT NULL;

-- Jobs as they are read.
CREATE VIEW records AS
SELECT
    j.tenant_id, j.id, j.kind, j.queue,
    CASE WHEN f.seq IS NOT NULL THEN f.status WHEN l.seq IS NOT NULL THEN 'running' ELSE 'pending' END AS status,
    l.phase,
    j.priority,
    coalesce(f.attempt, l.attempt, j.attempt) AS attempt,
    j.max_attempts,
    CASE WHEN f.seq IS NOT NULL THEN f.progress WHEN l.seq IS NOT NULL THEN l.progress ELSE j.progress END AS progress,
    j.labels,
    coalesce(f.version, l.version, j.version) AS version,
    j.idempotency_key,
    j.created_at,
    j.run_at,
    coalesce(f.started_at, l.started_at, j.started_at) AS started_at,
    f.completed_at,
    f.expires_at,
    CASE WHEN f.seq IS NULL THEN j.error ELSE f.error END AS error,
    CASE
        WHEN f.seq IS NULL THEN coalesce(l.cancel_requested_at, j.cancel_requested_at)
        ELSE f.cancel_requested_at
    END AS cancel_requested_at,
    j.timeout_ms,
    coalesce(f.code_version, l.code_version, j.code_version) AS code_version,
    j.forked_from,
    j.parent_id,
    j.has_payload,
    f.artifacts,
    j.attempt_base,
    l.seq IS NOT NULL OR f.claimed_at IS NOT NULL OR j.charge AS charge,
    coalesce(f.epoch, l.epoch, j.epoch) AS epoch,
    coalesce(f.replica, l.replica) AS replica,
    l.lease_until,
    j.retention_completed_ms,
    j.retention_failed_ms,
    coalesce(f.claimed_at, l.claimed_at) AS claimed_at,
    j.key_id,
    CASE WHEN f.seq IS NULL THEN j.run_ms ELSE 0 END AS run_ms,
    j.payload_bytes,
    f.seq IS NOT NULL OR j.metered AS metered,
    coalesce(f.metered_steps, j.metered_steps) AS metered_steps,
    j.webhook,
    j.seq,
    j.fingerprint,
    l.counted,
    -- The history of a running or finished job is put together from here on.
    j.version AS settled_version,
    l.events IS NOT NULL AS has_events,
    j.history,
    coalesce(f.events, l.events) AS events,
    f.result
FROM jobs AS j
LEFT JOIN leases AS l ON l.seq = j.seq
LEFT JOIN finished AS f ON f.seq = j.seq;

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

-- Ids of deleted jobs, so that a read returns "gone" instead of "not found".
CREATE TABLE tombstones (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    gone_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_gone_at ON tombstones (gone_at);

-- Running processes. A SQLite file has one at a time: at open, all rows belong to dead ones.
CREATE TABLE replicas (
    name TEXT PRIMARY KEY,
    -- Distinguishes a process from a former one with the same name.
    run INTEGER NOT NULL,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    -- Distinguishes the process from others with its id.
    process TEXT NOT NULL,
    -- A JSON list of names.
    kinds TEXT NOT NULL,
    running INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    silent_after_ms INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counters of the limits on queues, kinds and tenants. A claim creates a row when it first meets a scope with
-- a limit; without limits the table stays empty.
CREATE TABLE limit_counters (
    -- 'kind', 'queue' or 'tenant'.
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Running jobs that were counted.
    running INTEGER NOT NULL,
    -- The token bucket's level in millionths of a job at `taken_at`; NULL if the rate was never used.
    parts INTEGER NOT NULL,
    taken_at INTEGER,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Payloads, artifacts and work directories of jobs, and their deletion. Kept longer than the job, for its
-- receipt.
CREATE TABLE blobs (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    path TEXT NOT NULL,
    -- 'payload', 'artifact' or 'folder'.
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest BLOB,
    -- The encryption key, wrapped with a key that is not in the database; NULL after it is destroyed.
    wrapped_key BLOB,
    stored_at INTEGER NOT NULL,
    stored_by TEXT NOT NULL,
    key_destroyed_at INTEGER,
    -- The next deletion attempt; NULL while the blob is needed and after it is deleted.
    delete_at INTEGER,
    deleted_at INTEGER,
    deleted_by TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    failure TEXT,
    PRIMARY KEY (tenant_id, id, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX blobs_to_delete ON blobs (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX blobs_left ON blobs (tenant_id) WHERE deleted_at IS NULL;
CREATE INDEX blobs_deleted ON blobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX work_dirs_left ON blobs (path) WHERE role = 'folder' AND deleted_at IS NULL;
-- For payloads of jobs that were never claimed.
CREATE INDEX payloads_readable ON blobs (stored_at)
WHERE role = 'payload' AND wrapped_key IS NOT NULL;

-- Tenants with an account. A job's tenant needs no row here.
CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- 'active', 'past_due' or 'suspended'.
    subscription TEXT NOT NULL,
    inactive_since INTEGER,
    -- A JSON object; missing fields default to the configuration.
    limits TEXT NOT NULL,
    -- The customer id at the payment provider, and the time of its last event.
    billing_id TEXT,
    billed_at INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tenants_changed ON tenants (changed_at);
-- Not unique: one customer may pay for several tenants.
CREATE INDEX tenants_billed ON tenants (billing_id) WHERE billing_id IS NOT NULL;

-- API keys by their public id. The secret is not stored: `digest` is an HMAC of it under the server key with
-- the id `server_key`, which is not in the database.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Words separated by spaces.
    scopes TEXT NOT NULL,
    server_key TEXT NOT NULL,
    digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    requests_per_s INTEGER,
    rotated_from TEXT,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, id);
CREATE INDEX api_keys_changed ON api_keys (changed_at);

-- Applied events of the payment provider, because it repeats them.
CREATE TABLE billing_events (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log.
CREATE TABLE audit (
    -- A ULID, so that ids are in the order of time.
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    tenant_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL,
    request_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_of_tenant ON audit (tenant_id, id);
CREATE INDEX audit_of_target ON audit (target, id);

-- Usage of finished jobs by hour. Kept longer than the jobs.
CREATE TABLE usage (
    tenant_id TEXT NOT NULL,
    -- The start of the hour.
    hour INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- The id of an API key, or the empty string.
    key_id TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    run_ms INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    -- Tokens that language models read and wrote.
    prompt_tokens INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, hour, kind, key_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_hour ON usage (hour);

-- Webhook endpoints. Secrets are encrypted with a key that is not in the database.
CREATE TABLE endpoints (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Words separated by spaces; the empty string subscribes to all events.
    events TEXT NOT NULL,
    -- 1 if results are sent regardless of their size.
    full_results INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    disabled_reason TEXT,
    secret TEXT NOT NULL,
    former_secret TEXT,
    former_until INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

-- The identity of this file, so that the usage of a file that is copied twice is counted once.
CREATE TABLE origin (id TEXT NOT NULL) STRICT;

INSERT INTO origin (id) VALUES (lower(hex(randomblob(16))));
