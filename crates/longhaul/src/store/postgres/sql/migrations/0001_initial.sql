-- The schema of version 0.1.
--
-- A job is a row in `jobs`. While it is pending it also has a narrow row in `ready` (or `incoming`), while it
-- runs one in `leases` (or it is named in one of `shared_leases`), and when it has finished one in `finished`.
-- `jobs` is written when a job is accepted and when it returns to the queue, and does not change when it
-- finishes. The tenant comes first in every key, so that the schema can be distributed by tenant. Instants are
-- milliseconds since 1970.
--
-- No index of `jobs` contains a column that changes, and the fill factor leaves some room on each page: so
-- the new version of a row that returns to the queue mostly stays on its page and touches no index (a HOT
-- update).
CREATE TABLE longhaul.jobs (
    created_at bigint NOT NULL,
    run_at bigint NOT NULL,
    started_at bigint,
    cancel_requested_at bigint,
    timeout_ms bigint,
    retention_completed_ms bigint NOT NULL,
    retention_failed_ms bigint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    priority integer NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    -- Attempts used before the last resume.
    attempt_base integer NOT NULL,
    -- True if the next claim counts as a further attempt.
    charge boolean NOT NULL,
    has_payload boolean NOT NULL DEFAULT false,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    -- NULL if the job was submitted by SQL: then it is computed from the input.
    fingerprint bytea,
    labels jsonb NOT NULL,
    progress text,
    error text,
    code_version text,
    forked_from text COLLATE "C",
    parent_id text COLLATE "C",
    input text NOT NULL,
    -- Events before the last claim, one JSON object per line, oldest first; NULL before the first attempt has
    -- ended.
    history text,
    -- Id of the API key that submitted the job.
    key_id text COLLATE "C",
    -- Run time since the job was last metered.
    run_ms bigint NOT NULL DEFAULT 0,
    payload_bytes bigint NOT NULL DEFAULT 0,
    metered boolean NOT NULL DEFAULT false,
    -- Finished steps that were metered already, or that a fork began with.
    metered_steps bigint NOT NULL DEFAULT 0,
    -- The job's own webhook, as JSON.
    webhook text,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 90);

CREATE UNIQUE INDEX jobs_key ON longhaul.jobs (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

-- Child jobs, for example deliveries, by parent. Neither column ever changes.
CREATE INDEX jobs_of_parent ON longhaul.jobs (tenant_id, parent_id, id) WHERE parent_id IS NOT NULL;

-- The final states of finished jobs, each written once. The row of a job in `jobs` is left as it was before
-- its last attempt. Written only under the lock of the job's lease or of its row in `jobs`.
CREATE TABLE longhaul.finished (
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    -- The time of the last claim; NULL if the job was not running when it finished.
    claimed_at bigint,
    started_at bigint,
    completed_at bigint NOT NULL,
    expires_at bigint,
    cancel_requested_at bigint,
    -- Finished steps that were metered when the job finished.
    steps bigint NOT NULL,
    attempt integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    -- 'completed', 'failed' or 'cancelled'.
    status text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- The replica of the last claim.
    replica text,
    code_version text,
    progress text,
    error text,
    result text,
    -- A JSON list.
    artifacts text,
    -- Events since the last claim, one JSON object per line; NULL if there is only the final one, which follows
    -- from the other columns.
    events text,
    PRIMARY KEY (tenant_id, status, id)
);

CREATE INDEX finished_expiring ON longhaul.finished (expires_at) WHERE expires_at IS NOT NULL;

-- Lanes, between which a claim chooses: the pending jobs of one tenant, queue, kind and priority, by due
-- time. There are few lanes, and none is ever removed.
CREATE TABLE longhaul.lanes (
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    -- The lane's cursor: no job in the lane is due earlier. The greatest bigint if the lane is empty.
    -- Claims start here, so that they never scan the dead rows of claimed jobs, even while a long
    -- transaction keeps vacuum from removing them.
    due_at bigint NOT NULL,
    -- Approximate time of the last claim.
    active_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, queue, kind, priority)
);

CREATE INDEX lanes_active ON longhaul.lanes (kind, tenant_id)
WHERE due_at < 9223372036854775807;

-- The queue of pending jobs. The transaction that deletes a row decides what becomes of its job.
CREATE TABLE longhaul.ready (
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

-- For lists of pending jobs.
CREATE INDEX ready_by_id ON longhaul.ready (tenant_id, id);

-- The state of running jobs. The fill factor leaves room for renewals on the same page.
CREATE TABLE longhaul.leases (
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    claimed_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    started_at bigint NOT NULL,
    cancel_requested_at bigint,
    -- Identifies the claim, so that a claim whose response was lost finds its leases again.
    claim bigint NOT NULL,
    attempt integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    replica text NOT NULL,
    code_version text,
    phase text,
    progress text,
    -- Events since the claim, one JSON object per line.
    events text,
    -- The limit scopes that count this lease, so that its end releases exactly these.
    counted text,
    -- True if a process other than the claiming one stored steps, so that the latter cannot know their
    -- number.
    stepped_elsewhere boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- Shared leases: one row for several first attempts of a tenant and queue that were claimed together, instead of
-- a row in `leases` for each. Only for jobs whose row in `jobs` has never changed: the state of their attempt
-- follows from the claim. A settlement holds a key share lock on the row and inserts into `finished`. All else that
-- happens to one of the jobs splits the lease first (`split_leases`), under a lock that waits for settlements.
CREATE TABLE longhaul.shared_leases (
    claimed_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    -- Identifies the claim, as in `leases`.
    claim bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    -- The lowest and the highest of the ids.
    first_id text COLLATE "C" NOT NULL,
    last_id text COLLATE "C" NOT NULL,
    replica text NOT NULL,
    code_version text,
    -- Separated by spaces. Includes jobs that have finished since.
    ids text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, last_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
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

-- Output streams of running attempts, for readers on other replicas: one row for the chunks that a worker
-- sends at once. Unlogged, because chunks need not survive a crash and would only swell the log and
-- backups. Few rows live longer than their lease, which is why there is no reference.
CREATE UNLOGGED TABLE longhaul.output_chunks (
    epoch bigint NOT NULL,
    -- Number of the first chunk, from 0.
    first bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- A JSON list of texts.
    chunks text NOT NULL,
    PRIMARY KEY (tenant_id, id, epoch, first)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE longhaul.paused_queues (
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- Ids of deleted jobs, so that a request for one is answered with "gone" instead of "not found".
CREATE TABLE longhaul.tombstones (
    gone_at bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX tombstones_gone_at ON longhaul.tombstones (gone_at);

CREATE TABLE longhaul.replicas (
    name text COLLATE "C" PRIMARY KEY,
    -- Distinguishes two processes with the same name.
    run bigint NOT NULL,
    role text NOT NULL,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    -- Distinguishes the process from others with its id.
    process text NOT NULL,
    -- A JSON list of kind names.
    kinds text NOT NULL,
    running bigint NOT NULL,
    concurrency bigint NOT NULL,
    silent_after_ms bigint NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    -- Time of the last heartbeat by the database's clock; `seen_at` is by the replica's. A replica that starts takes
    -- the time of the others, even after a step of the database's clock.
    received_at bigint NOT NULL
);

-- Counters of limits on queues, kinds and tenants. A claim creates a row when it first meets a limited
-- scope; without limits the table stays empty. Every claim and settlement that counts updates its row,
-- so the fill factor leaves room on the page.
CREATE TABLE longhaul.limit_counters (
    -- Running jobs.
    running bigint NOT NULL,
    -- Tokens left in the rate limit's bucket at `taken_at`, in millionths of a job. `taken_at` is NULL
    -- until the first token is taken.
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

-- Jobs submitted by SQL that are not in `ready` yet. Callers' transactions may stay open for minutes, so
-- they lock neither lanes nor `ready`; a replica moves the rows once they are committed.
CREATE TABLE longhaul.incoming (
    run_at bigint NOT NULL,
    priority integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- Payloads, artifacts, and working directories that contained a payload in clear text. Kept longer than
-- the job, for its receipt.
CREATE TABLE longhaul.blobs (
    size bigint NOT NULL,
    stored_at bigint NOT NULL,
    key_destroyed_at bigint,
    -- Due time of the deletion: set when the blob is no longer needed, NULL once it is deleted.
    delete_at bigint,
    deleted_at bigint,
    failures integer NOT NULL DEFAULT 0,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    -- 'payload', 'artifact' or 'folder'.
    role text COLLATE "C" NOT NULL,
    name text NOT NULL,
    content_type text NOT NULL,
    digest bytea,
    -- The blob's encryption key, wrapped with a key that is not in the database; NULL once destroyed.
    wrapped_key bytea,
    stored_by text NOT NULL,
    deleted_by text,
    failure text,
    PRIMARY KEY (tenant_id, id, path)
);

CREATE INDEX blobs_to_delete ON longhaul.blobs (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX blobs_stored ON longhaul.blobs (tenant_id) WHERE deleted_at IS NULL;
CREATE INDEX blobs_deleted ON longhaul.blobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX work_dirs_stored ON longhaul.blobs (path) WHERE role = 'folder' AND deleted_at IS NULL;
-- Payloads that expire although their job never started.
CREATE INDEX payloads_readable ON longhaul.blobs (stored_at)
WHERE role = 'payload' AND wrapped_key IS NOT NULL;

-- Tenants with a subscription or limits. A job's tenant need not have a row here.
CREATE TABLE longhaul.tenants (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    -- 'active', 'past_due' or 'suspended'.
    subscription text COLLATE "C" NOT NULL,
    inactive_since bigint,
    -- A JSON object; missing limits are those of the configuration.
    limits text COLLATE "C" NOT NULL,
    -- The payment provider's customer id, and the time of its last event.
    billing_id text COLLATE "C",
    billed_at bigint,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);

CREATE INDEX tenants_changed ON longhaul.tenants (changed_at);
-- One billing customer may own several tenants.
CREATE INDEX tenants_billed ON longhaul.tenants (billing_id) WHERE billing_id IS NOT NULL;

-- API keys by their public part. The secret part is not stored: `digest` is its HMAC under a key of the
-- server that is not in the database (`server_key` is that key's id).
CREATE TABLE longhaul.api_keys (
    id text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Separated by spaces.
    scopes text COLLATE "C" NOT NULL,
    server_key text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    requests_per_s bigint,
    rotated_from text COLLATE "C",
    changed_at bigint NOT NULL
);

CREATE INDEX api_keys_of_tenant ON longhaul.api_keys (tenant_id, id);
CREATE INDEX api_keys_changed ON longhaul.api_keys (changed_at);

-- Applied events of the payment provider, which may send an event more than once.
CREATE TABLE longhaul.billing_events (
    id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
);

-- The audit log.
CREATE TABLE longhaul.audit (
    -- A ULID, so that ids sort by time.
    id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL
);

CREATE INDEX audit_of_tenant ON longhaul.audit (tenant_id, id);
CREATE INDEX audit_of_target ON longhaul.audit (target, id);

-- Usage of finished jobs by hour. Kept longer than the jobs.
CREATE TABLE longhaul.usage (
    -- Start of the hour.
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    run_ms bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    steps bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    -- The id of an API key, or empty.
    key_id text COLLATE "C" NOT NULL,
    -- The id of the SQLite file that the row was copied from, or empty.
    origin text COLLATE "C" NOT NULL DEFAULT '',
    -- Tokens of language models.
    prompt_tokens bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, hour, kind, key_id, origin)
);

CREATE INDEX usage_hour ON longhaul.usage (hour);

-- Usage that is not in `usage` yet. Settlements only insert here, so that they do not wait for each other
-- although they concern the same few hours; replicas roll the rows up now and then.
CREATE TABLE longhaul.usage_deltas (
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    run_ms bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    steps bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    prompt_tokens bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- Webhook endpoints. Secrets are encrypted with a key that is not in the database.
CREATE TABLE longhaul.endpoints (
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    description text NOT NULL,
    -- Separated by spaces; empty means all.
    events text NOT NULL,
    -- True if results are sent in full, whatever their size.
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

-- One row whose version rises with every change of an endpoint, so that replicas notice when their cached
-- subscriptions are stale.
CREATE TABLE longhaul.endpoint_changes (
    id integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    version bigint NOT NULL
);

INSERT INTO longhaul.endpoint_changes (version) VALUES (0);

-- Complete jobs: the row of `jobs`, overlaid with the lease or the final state if there is one. Statements
-- read the columns by position, so later migrations may only append columns.
CREATE VIEW longhaul.records AS
SELECT
    j.tenant_id, j.id, j.kind, j.queue,
    CASE WHEN f.id IS NOT NULL THEN f.status WHEN l.id IS NOT NULL THEN 'running' ELSE 'pending' END AS status,
    l.phase,
    j.priority,
    coalesce(l.attempt, f.attempt, j.attempt) AS attempt,
    j.max_attempts,
    CASE WHEN f.id IS NOT NULL THEN f.progress WHEN l.id IS NOT NULL THEN l.progress ELSE j.progress END AS progress,
    j.labels::text AS labels,
    coalesce(l.version, f.version, j.version) AS version,
    j.idempotency_key,
    j.created_at,
    j.run_at,
    coalesce(l.started_at, f.started_at, j.started_at) AS started_at,
    f.completed_at,
    f.expires_at,
    CASE WHEN f.id IS NULL THEN j.error ELSE f.error END AS error,
    CASE
        WHEN f.id IS NULL THEN coalesce(l.cancel_requested_at, j.cancel_requested_at)
        ELSE f.cancel_requested_at
    END AS cancel_requested_at,
    j.timeout_ms,
    coalesce(l.code_version, f.code_version, j.code_version) AS code_version,
    j.forked_from,
    j.parent_id,
    j.has_payload,
    f.artifacts,
    j.attempt_base,
    l.id IS NOT NULL OR f.claimed_at IS NOT NULL OR j.charge AS charge,
    coalesce(l.epoch, f.epoch, j.epoch) AS epoch,
    coalesce(l.replica, f.replica) AS replica,
    l.lease_until,
    j.retention_completed_ms,
    j.retention_failed_ms,
    -- The history of a running or finished job is put together from here on.
    j.version AS settled_version,
    coalesce(l.claimed_at, f.claimed_at) AS claimed_at,
    j.history,
    coalesce(l.events, f.events) AS events,
    f.result,
    j.input,
    j.key_id,
    CASE WHEN f.id IS NULL THEN j.run_ms ELSE 0 END AS run_ms,
    j.payload_bytes,
    f.id IS NOT NULL OR j.metered AS metered,
    j.metered_steps + coalesce(f.steps, 0) AS metered_steps,
    j.webhook,
    coalesce(l.is_shared, false) AS is_lease_shared
FROM longhaul.jobs AS j
-- One lookup per status. With a list of statuses the planner may filter all finished jobs of the tenant.
LEFT JOIN LATERAL (
    SELECT * FROM longhaul.finished WHERE tenant_id = j.tenant_id AND status = 'completed' AND id = j.id
    UNION ALL
    SELECT * FROM longhaul.finished WHERE tenant_id = j.tenant_id AND status = 'failed' AND id = j.id
    UNION ALL
    SELECT * FROM longhaul.finished WHERE tenant_id = j.tenant_id AND status = 'cancelled' AND id = j.id
    LIMIT 1
) AS f ON true
-- A lease of its own, or the one that it shares.
LEFT JOIN LATERAL (
    SELECT
        id, attempt, version, epoch, started_at, claimed_at, lease_until, cancel_requested_at, replica,
        code_version, phase, progress, events, false AS is_shared
    FROM longhaul.leases
    WHERE tenant_id = j.tenant_id AND id = j.id AND f.id IS NULL
    UNION ALL
    SELECT
        j.id, 1, 2, 1, claimed_at, claimed_at, lease_until, NULL, replica,
        code_version, NULL, NULL, NULL, true
    FROM longhaul.shared_leases
    WHERE
        tenant_id = j.tenant_id AND last_id >= j.id AND first_id <= j.id AND strpos(ids, j.id) > 0
        AND f.id IS NULL AND j.version = 1
    LIMIT 1
) AS l ON true;

-- `records` without the columns that may be large.
CREATE VIEW longhaul.entries AS
SELECT
    tenant_id, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels,
    version, idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error,
    cancel_requested_at, timeout_ms, code_version, forked_from, parent_id, has_payload, artifacts,
    attempt_base, charge, epoch, replica, lease_until, retention_completed_ms,
    retention_failed_ms, settled_version,
    claimed_at, key_id, run_ms, payload_bytes, metered, metered_steps, webhook, is_lease_shared
FROM longhaul.records;

-- Running jobs with a shared lease.
CREATE VIEW longhaul.shared_jobs AS
SELECT
    lease.tenant_id, member.id COLLATE "C" AS id, lease.queue, lease.claimed_at, lease.lease_until, lease.claim,
    lease.replica, lease.code_version, lease.last_id
FROM longhaul.shared_leases AS lease
CROSS JOIN LATERAL unnest(string_to_array(lease.ids, ' ')) AS member (id)
CROSS JOIN LATERAL (
    SELECT FROM longhaul.records
    WHERE tenant_id = lease.tenant_id AND id = member.id AND is_lease_shared
    LIMIT 1
) AS running;

-- Replaces shared leases by leases of their own for the jobs that are still running. Returns the number of those.
-- The second statement must not share a snapshot with the first, which waits for settlements: otherwise it would
-- not see the jobs that they have finished. So this is a function and not a statement.
CREATE FUNCTION longhaul.split_leases(tenants text[], last_ids text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT
AS $$
DECLARE
    split bigint;
BEGIN
    PERFORM FROM longhaul.shared_leases AS lease
    INNER JOIN (SELECT DISTINCT * FROM unnest(tenants, last_ids)) AS wanted (tenant_id, last_id)
        USING (tenant_id, last_id)
    ORDER BY lease.tenant_id, lease.last_id
    FOR UPDATE OF lease;

    INSERT INTO longhaul.leases (
        tenant_id, id, queue, epoch, version, attempt, started_at, code_version, replica, claimed_at,
        lease_until, claim
    )
    SELECT
        tenant_id, id, queue, 1, 2, 1, claimed_at, code_version, replica, claimed_at, lease_until, claim
    FROM longhaul.shared_jobs AS job
    INNER JOIN (SELECT DISTINCT * FROM unnest(tenants, last_ids)) AS wanted (tenant_id, last_id)
        USING (tenant_id, last_id);
    GET DIAGNOSTICS split = ROW_COUNT;

    DELETE FROM longhaul.shared_leases AS lease
    USING unnest(tenants, last_ids) AS wanted (tenant_id, last_id)
    WHERE lease.tenant_id = wanted.tenant_id AND lease.last_id = wanted.last_id;
    RETURN split;
END
$$;

-- Submission by SQL, inside a transaction of the caller.

-- Returns a new ULID: 48 bits of time in milliseconds and 80 random bits, as 26 characters. The random
-- bits are those of a UUID that its format does not fix.
CREATE FUNCTION longhaul.new_id(at_ms bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    drawn bytea := uuid_send(gen_random_uuid());
    high bigint := 0;
    low bigint := 0;
    positions text := '';
BEGIN
    FOR byte IN 0..4 LOOP
        high := (high << 8) | get_byte(drawn, byte);
        low := (low << 8) | get_byte(drawn, CASE byte WHEN 0 THEN 5 ELSE 8 + byte END);
    END LOOP;
    FOR position IN 0..25 LOOP
        positions := positions || substr(
            '0123456789ABCDEFGHJKMNPQRSTVWXYZ',
            1 + (31 & CASE
                WHEN position < 10 THEN at_ms >> (45 - 5 * position)
                WHEN position < 18 THEN high >> (85 - 5 * position)
                ELSE low >> (125 - 5 * position)
            END)::integer,
            1
        );
    END LOOP;
    RETURN positions;
END
$$;

-- The checks below run inside `submit` and with its search path.

-- Rejects an invalid name of a kind, queue or tenant.
CREATE FUNCTION longhaul.check_name(what text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF name IS NULL OR name COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' THEN
        RAISE EXCEPTION
            'the %: % is not a name: use a letter or digit, then up to 63 letters, digits, ''.'', ''_'' or ''-''',
            what, coalesce(quote_literal(left(name, 80)), 'NULL')
            USING ERRCODE = 'LH400';
    END IF;
END
$$;

-- Rejects an interval outside of the engine's limits; returns milliseconds.
CREATE FUNCTION longhaul.check_span(what text, span interval, least_ms bigint, most_days integer)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    span_ms numeric := round((extract(EPOCH FROM span) * 1000)::numeric);
BEGIN
    IF span_ms < least_ms THEN
        RAISE EXCEPTION 'the % is too short: %', what, span USING ERRCODE = 'LH400';
    END IF;
    IF span_ms > most_days::numeric * 86400000 THEN
        RAISE EXCEPTION 'the % is over the limit: %, at most % days', what, span, most_days
            USING ERRCODE = 'LH400';
    END IF;
    RETURN span_ms;
END
$$;

-- Rejects labels that are not an object of few, short strings.
CREATE FUNCTION longhaul.check_labels(labels jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    label record;
    count integer := 0;
BEGIN
    IF jsonb_typeof(labels) <> 'object' THEN
        RAISE EXCEPTION 'the labels must be a JSON object of strings' USING ERRCODE = 'LH400';
    END IF;
    FOR label IN SELECT key, value FROM jsonb_each(labels) LOOP
        count := count + 1;
        IF jsonb_typeof(label.value) <> 'string' THEN
            RAISE EXCEPTION 'the label % must be a string', quote_literal(left(label.key, 80))
                USING ERRCODE = 'LH400';
        END IF;
        IF label.key = '' THEN
            RAISE EXCEPTION 'a label needs a name' USING ERRCODE = 'LH400';
        END IF;
        IF length(label.key) > 255 OR length(label.value #>> '{}') > 255 THEN
            RAISE EXCEPTION 'a label in characters is over the limit: at most 255'
                USING ERRCODE = 'LH400';
        END IF;
    END LOOP;
    IF count > 32 THEN
        RAISE EXCEPTION 'the number of labels is over the limit: %, at most 32', count
            USING ERRCODE = 'LH400';
    END IF;
END
$$;

-- Rejects a kind that no replica declares, because no worker would run the job. Accepts every kind while
-- no replica is registered.
CREATE FUNCTION longhaul.check_kind(kind text) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    known text;
BEGIN
    IF EXISTS (SELECT FROM longhaul.replicas WHERE kinds::jsonb ? check_kind.kind)
        OR NOT EXISTS (SELECT FROM longhaul.replicas)
    THEN
        RETURN;
    END IF;
    SELECT string_agg(DISTINCT declared.kind, ', ' ORDER BY declared.kind) INTO known
    FROM longhaul.replicas AS replica
    CROSS JOIN jsonb_array_elements_text(replica.kinds::jsonb) AS declared (kind);
    RAISE EXCEPTION 'unknown kind %; known: %', quote_literal(check_kind.kind), coalesce(known, 'none')
        USING
            ERRCODE = 'LH404',
            HINT = 'check_kind => false accepts a kind that workers will declare later';
END
$$;

-- Submits a job in the caller's transaction: the job exists once the caller commits. Returns the job's
-- id. A NULL argument means its default.
--
-- Error codes: LH400 an argument is invalid, LH404 no replica declares the kind, LH409 the idempotency
-- key belongs to another submission (the error's detail is that job's id).
--
-- The function runs with the rights of its owner, so that a role that submits needs only
--     GRANT USAGE ON SCHEMA longhaul TO app;
--     GRANT EXECUTE ON FUNCTION longhaul.submit TO app;
-- and can neither read inputs and results nor change jobs.
CREATE FUNCTION longhaul.submit(
    kind text,
    input jsonb DEFAULT 'null',
    tenant text DEFAULT 'default',
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    max_attempts integer DEFAULT 3,
    timeout interval DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    labels jsonb DEFAULT '{}',
    retention_completed interval DEFAULT '24 hours',
    retention_failed interval DEFAULT '7 days',
    -- Notifies workers at commit. Pass false for bulk inserts: a commit that notifies takes a lock of
    -- the whole server, and workers poll every second anyway.
    hint boolean DEFAULT true,
    check_kind boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint;
    due_ms bigint;
    input_text text := coalesce(submit.input, 'null')::text;
    timeout_ms bigint;
    completed_ms bigint;
    failed_ms bigint;
    new_id text;
    known record;
    same boolean;
BEGIN
    tenant := coalesce(submit.tenant, 'default');
    queue := coalesce(submit.queue, 'default');
    priority := coalesce(submit.priority, 0);
    max_attempts := coalesce(submit.max_attempts, 3);
    labels := coalesce(submit.labels, '{}');
    PERFORM longhaul.check_name('kind', submit.kind);
    PERFORM longhaul.check_name('tenant', submit.tenant);
    PERFORM longhaul.check_name('queue', submit.queue);
    IF octet_length(input_text) > 1048576 THEN
        RAISE EXCEPTION 'the input in bytes is over the limit: %, at most 1048576', octet_length(input_text)
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'the priority is over the limit: %, between -100 and 100', submit.priority
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts must be between 1 and 1000, not %', submit.max_attempts
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.idempotency_key COLLATE "C" !~ '^[\x21-\x7e]{1,255}$' THEN
        RAISE EXCEPTION 'an idempotency key has 1 to 255 visible ASCII characters'
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.run_at IS NOT NULL AND submit.delay IS NOT NULL THEN
        RAISE EXCEPTION 'give either run_at or delay' USING ERRCODE = 'LH400';
    END IF;
    PERFORM longhaul.check_labels(submit.labels);
    timeout_ms := longhaul.check_span('timeout', submit.timeout, 1, 30);
    completed_ms := longhaul.check_span(
        'retention', coalesce(submit.retention_completed, '24 hours'), 0, 366);
    failed_ms := longhaul.check_span('retention', coalesce(submit.retention_failed, '7 days'), 0, 366);
    due_ms := now_ms + coalesce(longhaul.check_span(
        'delay', coalesce(submit.delay, greatest(submit.run_at - clock_timestamp(), '0')), 0, 366), 0);
    IF coalesce(submit.check_kind, true) THEN
        PERFORM longhaul.check_kind(submit.kind);
    END IF;
    LOOP
        new_id := longhaul.new_id(now_ms);
        -- Waits for an open transaction with the same key.
        INSERT INTO longhaul.jobs (
            tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, charge,
            epoch, version, labels, idempotency_key, created_at, run_at, timeout_ms,
            retention_completed_ms, retention_failed_ms, input
        )
        VALUES (
            submit.tenant, new_id, submit.kind, submit.queue, submit.priority, 0,
            submit.max_attempts, 0, true, 0, 1, submit.labels, submit.idempotency_key, now_ms, due_ms,
            timeout_ms, completed_ms, failed_ms, input_text
        )
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO longhaul.incoming (tenant_id, id, queue, kind, priority, run_at)
            VALUES (submit.tenant, new_id, submit.queue, submit.kind, submit.priority, due_ms);
            IF coalesce(submit.hint, true) THEN
                PERFORM pg_notify('longhaul', 'sql incoming');
            END IF;
            RETURN new_id;
        END IF;
        SELECT job.id, job.kind, job.input INTO known
        FROM longhaul.jobs AS job
        WHERE job.tenant_id = submit.tenant AND job.idempotency_key = submit.idempotency_key;
        IF FOUND THEN
            BEGIN
                same := known.kind = submit.kind AND known.input::jsonb = input_text::jsonb;
            EXCEPTION WHEN data_exception THEN
                -- A stored input that jsonb cannot represent was not submitted by this function.
                same := false;
            END;
            IF same THEN
                RETURN known.id;
            END IF;
            RAISE EXCEPTION 'the idempotency key was used for another submission (job %)', known.id
                USING ERRCODE = 'LH409', DETAIL = known.id;
        END IF;
        -- The job with this key was deleted meanwhile: try again.
    END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION longhaul.submit FROM PUBLIC;

-- Row-level security: a second line of defence for tenant isolation. If a statement's WHERE clause ever
-- missed its tenant, the database would still show the rows of one tenant only.
--
-- The owner of the tables sees everything. The role `longhaul_tenant` sees the rows of the tenant that its
-- transaction names. A role that may insert into `replicas` runs the service and sees everything too. All
-- other roles see nothing, whatever is granted to them. The policies refer to the role by name, so that
-- it need not exist and a dump can be restored without it.

-- Enables row-level security for a table; `key` is the column with the tenant.
--
-- The conditions are scalar sub-selects, so that they are evaluated once per statement and not per row.
-- They are compared with NULL because the planner assumes that nearly all rows pass such a test, which
-- is right: statements name their tenant anyway. With other conditions it would assume that half of the
-- rows are hidden, and choose other plans.
CREATE FUNCTION longhaul.enable_rls(relation regclass, key name) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    EXECUTE format(
        $policy$
        CREATE POLICY tenant_isolation ON %1$s USING (
            CASE
                WHEN %2$I = (SELECT CASE
                    WHEN current_user = 'longhaul_tenant' THEN current_setting('longhaul.tenant', true)
                END) THEN true
                -- The tenant's outbox.
                WHEN %2$I = (SELECT CASE
                    WHEN current_user = 'longhaul_tenant'
                        THEN '~' || current_setting('longhaul.tenant', true)
                END) THEN true
                WHEN (SELECT
                    current_user <> 'longhaul_tenant'
                    AND has_table_privilege('longhaul.replicas'::regclass, 'INSERT')
                ) THEN true
            END IS NOT NULL
        )
        $policy$,
        relation, key
    );
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
END
$$;

-- Exempts a role that runs the service without owning the tables. It would pass the policy anyway, but
-- under a policy statements cannot look rows up by ctid, as most hot statements do. A condition that is
-- always true is optimized away.
CREATE FUNCTION longhaul.grant_replica(replica regrole) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    relation record;
BEGIN
    FOR relation IN
        SELECT polrelid::regclass AS name FROM pg_policy AS policy
        INNER JOIN pg_class AS class ON class.oid = policy.polrelid
        WHERE
            policy.polname = 'tenant_isolation' AND class.relnamespace = 'longhaul'::regnamespace
            AND NOT EXISTS (
                SELECT FROM pg_policy AS other
                WHERE other.polrelid = policy.polrelid AND replica = ANY (other.polroles)
            )
        ORDER BY class.relname
    LOOP
        EXECUTE format(
            'CREATE POLICY %I ON %s TO %s USING (true)',
            left('replica_' || trim('"' FROM replica::text), 63), relation.name, replica
        );
    END LOOP;
END
$$;

SELECT longhaul.enable_rls('longhaul.jobs', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.finished', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.lanes', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.ready', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.leases', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.shared_leases', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.steps', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.output_chunks', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.paused_queues', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.tombstones', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.incoming', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.blobs', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.usage', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.usage_deltas', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.api_keys', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.audit', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.endpoints', 'tenant_id');
SELECT longhaul.enable_rls('longhaul.tenants', 'id');
