-- The first shape of the database. What is hot is small and apart: `line` holds nothing but places of
-- pending jobs, `leases` nothing but running ones, `settled` nothing but where to find the others, and
-- `jobs` is written when a job is accepted, when it goes back in line and when it ends. The tenant comes
-- first in every key, so that all of it can be distributed by tenant. Instants are milliseconds since 1970.
--
-- No index of `jobs` has a column that changes, and each page has room for what an end adds: so the row
-- that an end writes stays on its page and costs no index anything.
CREATE TABLE longhaul.jobs (
    created_at bigint NOT NULL,
    run_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    expires_at bigint,
    cancel_requested_at bigint,
    timeout_ms bigint,
    retention_completed_ms bigint NOT NULL,
    retention_failed_ms bigint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    priority integer NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    -- Attempts that were used up before the last resume.
    attempt_base integer NOT NULL,
    -- Whether the next claim counts as a further attempt.
    charge boolean NOT NULL,
    -- Whether it was submitted with a payload.
    has_payload boolean NOT NULL DEFAULT false,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    -- As of the last time the job was in nobody's hands: while there is a lease, it is running.
    status text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    -- None if the job was submitted by SQL: then its input tells.
    fingerprint bytea,
    labels jsonb NOT NULL,
    progress text,
    error text,
    code_version text,
    forked_from text COLLATE "C",
    parent_id text COLLATE "C",
    input text NOT NULL,
    result text,
    -- What it produced, as JSON; none until it completes.
    artifacts text,
    -- One JSON event a line, oldest first; none until the first attempt has ended.
    history text,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 40);

CREATE UNIQUE INDEX jobs_key ON longhaul.jobs (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

-- Jobs that are neither in line nor running, by status and by when they go. Whoever has locked the job
-- writes here.
CREATE TABLE longhaul.settled (
    expires_at bigint,
    tenant_id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, status, id)
);

CREATE INDEX settled_expiring ON longhaul.settled (expires_at) WHERE expires_at IS NOT NULL;

-- A lane is what a claim chooses between: jobs of one tenant, queue, kind and priority, by due time.
-- There are few of them, and none is ever removed.
CREATE TABLE longhaul.lanes (
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    -- No job in the lane is due before this; the greatest number if it is empty. Claims begin here and
    -- so never walk over what was claimed before, even while a foreign transaction keeps vacuum from
    -- removing it.
    due_at bigint NOT NULL,
    -- About when a job was last claimed from it.
    active_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, queue, kind, priority)
);

CREATE INDEX lanes_active ON longhaul.lanes (kind, tenant_id)
WHERE due_at < 9223372036854775807;

-- Places of pending jobs. Whoever deletes a place decides what becomes of its job.
CREATE TABLE longhaul.line (
    run_at bigint NOT NULL,
    priority integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, queue, kind, priority, run_at, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- For lists.
CREATE INDEX line_by_id ON longhaul.line (tenant_id, id);

-- What is different about a job while a replica holds it. Room on each page lets a renewal stay there.
CREATE TABLE longhaul.leases (
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    claimed_at bigint NOT NULL,
    -- When the lease ends.
    lease_until bigint NOT NULL,
    started_at bigint NOT NULL,
    cancel_requested_at bigint,
    -- Names the claim that took it, for a claim whose answer was lost.
    claim bigint NOT NULL,
    attempt integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    replica text NOT NULL,
    code_version text,
    phase text,
    progress text,
    -- Events since the claim, one a line.
    events text,
    PRIMARY KEY (tenant_id, id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE longhaul.steps (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    started_at bigint NOT NULL,
    completed_at bigint NOT NULL,
    position integer NOT NULL,
    attempt integer NOT NULL,
    alone boolean NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    output text NOT NULL,
    PRIMARY KEY (tenant_id, id, name)
);

CREATE TABLE longhaul.paused_queues (
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- Ids of deleted jobs, so that asking for one answers "gone" instead of "never was".
CREATE TABLE longhaul.tombstones (
    gone_at bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX tombstones_gone_at ON longhaul.tombstones (gone_at);

-- Jobs as they stand, with all that there is to know of them: what `jobs` says, and over it what the lease
-- says. Later versions add columns at the end only, because programs read them by their place.
CREATE VIEW longhaul.records AS
SELECT
    j.tenant_id, j.id, j.kind, j.queue,
    CASE WHEN l.id IS NULL THEN j.status ELSE 'running' END AS status,
    l.phase,
    j.priority,
    coalesce(l.attempt, j.attempt) AS attempt,
    j.max_attempts,
    CASE WHEN l.id IS NULL THEN j.progress ELSE l.progress END AS progress,
    j.labels::text AS labels,
    coalesce(l.version, j.version) AS version,
    j.idempotency_key,
    j.created_at,
    j.run_at,
    coalesce(l.started_at, j.started_at) AS started_at,
    j.completed_at,
    j.expires_at,
    j.error,
    coalesce(l.cancel_requested_at, j.cancel_requested_at) AS cancel_requested_at,
    j.timeout_ms,
    coalesce(l.code_version, j.code_version) AS code_version,
    j.forked_from,
    j.parent_id,
    j.has_payload,
    j.artifacts,
    j.attempt_base,
    l.id IS NOT NULL OR j.charge AS charge,
    coalesce(l.epoch, j.epoch) AS epoch,
    l.replica,
    l.lease_until,
    j.retention_completed_ms,
    j.retention_failed_ms,
    -- What the history of a running job is made from.
    j.version AS settled_version,
    l.claimed_at,
    j.history,
    l.events,
    j.result,
    j.input
FROM longhaul.jobs AS j
LEFT JOIN longhaul.leases AS l ON l.tenant_id = j.tenant_id AND l.id = j.id;

-- The same of jobs that nobody holds, without looking for a lease. Has the columns of `records`.
CREATE VIEW longhaul.unheld AS
SELECT
    tenant_id, id, kind, queue, status, NULL::text AS phase, priority, attempt, max_attempts, progress,
    labels::text AS labels, version, idempotency_key, created_at, run_at, started_at, completed_at,
    expires_at, error, cancel_requested_at, timeout_ms, code_version, forked_from, parent_id,
    has_payload, artifacts, attempt_base, charge, epoch, NULL::text AS replica, NULL::bigint AS lease_until,
    retention_completed_ms, retention_failed_ms, version AS settled_version,
    NULL::bigint AS claimed_at, history, NULL::text AS events, result, input
FROM longhaul.jobs;

-- The same as `records` without what may be large.
CREATE VIEW longhaul.entries AS
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id, has_payload, artifacts,
    attempt_base, charge, epoch, replica, lease_until, retention_completed_ms, retention_failed_ms, settled_version,
    claimed_at
FROM longhaul.records;
