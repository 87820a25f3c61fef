-- What finished jobs used, by hour. Kept longer than the jobs.
CREATE TABLE longhaul.usage (
    -- When the hour began.
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    run_ms bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    steps bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    -- The id of an API key, or nothing.
    key_id text COLLATE "C" NOT NULL,
    -- The SQLite file that it was copied from, or nothing.
    origin text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, hour, kind, key_id, origin)
);

CREATE INDEX usage_hour ON longhaul.usage (hour);

-- What was added and is not in `usage` yet. Whatever ends jobs inserts here and waits for nobody, although
-- all of it is about the same few hours; replicas fold it into the sums now and then.
CREATE TABLE longhaul.usage_deltas (
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    run_ms bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    steps bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- What a job used that nobody has metered yet.
ALTER TABLE longhaul.jobs
-- The id of the API key that submitted it.
ADD COLUMN key_id text COLLATE "C",
-- How long attempts ran since the job was last metered.
ADD COLUMN run_ms bigint NOT NULL DEFAULT 0,
ADD COLUMN payload_bytes bigint NOT NULL DEFAULT 0,
ADD COLUMN metered boolean NOT NULL DEFAULT false,
-- Finished steps that were metered, or that a fork began with.
ADD COLUMN metered_steps bigint NOT NULL DEFAULT 0;

-- Whether steps were stored by another process than the one that claimed it, which then does not know how
-- many there are.
ALTER TABLE longhaul.leases ADD COLUMN stepped_elsewhere boolean NOT NULL DEFAULT false;

UPDATE longhaul.jobs SET payload_bytes = blob.size
FROM longhaul.blobs AS blob
WHERE
    jobs.has_payload AND blob.tenant_id = jobs.tenant_id AND blob.id = jobs.id
    AND blob.role = 'payload';

CREATE OR REPLACE VIEW longhaul.records AS
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
    j.version AS settled_version,
    l.claimed_at,
    j.history,
    l.events,
    j.result,
    j.input,
    j.key_id,
    j.run_ms,
    j.payload_bytes,
    j.metered,
    j.metered_steps
FROM longhaul.jobs AS j
LEFT JOIN longhaul.leases AS l ON l.tenant_id = j.tenant_id AND l.id = j.id;

CREATE OR REPLACE VIEW longhaul.unheld AS
SELECT
    tenant_id, id, kind, queue, status, NULL::text AS phase, priority, attempt, max_attempts, progress,
    labels::text AS labels, version, idempotency_key, created_at, run_at, started_at, completed_at,
    expires_at, error, cancel_requested_at, timeout_ms, code_version, forked_from, parent_id,
    has_payload, artifacts, attempt_base, charge, epoch, NULL::text AS replica, NULL::bigint AS lease_until,
    retention_completed_ms, retention_failed_ms, version AS settled_version,
    NULL::bigint AS claimed_at, history, NULL::text AS events, result, input, key_id, run_ms,
    payload_bytes, metered, metered_steps
FROM longhaul.jobs;

CREATE OR REPLACE VIEW longhaul.entries AS
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id, has_payload, artifacts,
    attempt_base, charge, epoch, replica, lease_until, retention_completed_ms,
    retention_failed_ms, settled_version,
    claimed_at, key_id, run_ms, payload_bytes, metered, metered_steps
FROM longhaul.records;
