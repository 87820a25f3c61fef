-- Who is told of what happens to jobs. `webhook` is a job's own, as JSON.
ALTER TABLE longhaul.jobs ADD COLUMN webhook text;

-- What belongs to a job: its deliveries. Neither column ever changes.
CREATE INDEX jobs_of_parent ON longhaul.jobs (tenant_id, parent_id, id) WHERE parent_id IS NOT NULL;

-- Where tenants want to be told. Secrets are sealed with a key that is not in the database.
CREATE TABLE longhaul.endpoints (
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    description text NOT NULL,
    -- Words with spaces between; none: all.
    events text NOT NULL,
    -- Whether results of any size are sent.
    full_results boolean NOT NULL,
    enabled boolean NOT NULL,
    disabled_reason text,
    secret text NOT NULL,
    former_secret text,
    former_until bigint,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

SELECT longhaul.wall_in('longhaul.endpoints', 'tenant_id');

-- Rises with every change of an endpoint: one row, by which processes see that they have to read them again.
CREATE TABLE longhaul.endpoint_changes (
    id integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    version bigint NOT NULL
);

INSERT INTO longhaul.endpoint_changes (version) VALUES (0);

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
    j.metered_steps,
    j.webhook
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
    payload_bytes, metered, metered_steps, webhook
FROM longhaul.jobs;

CREATE OR REPLACE VIEW longhaul.entries AS
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id, has_payload, artifacts,
    attempt_base, charge, epoch, replica, lease_until, retention_completed_ms,
    retention_failed_ms, settled_version,
    claimed_at, key_id, run_ms, payload_bytes, metered, metered_steps, webhook
FROM longhaul.records;
