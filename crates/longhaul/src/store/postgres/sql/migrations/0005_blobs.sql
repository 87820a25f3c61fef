-- What was stored for jobs elsewhere, and what became of it: payloads, artifacts, and working folders that
-- held a payload in clear. Kept longer than the job, for its receipt.
CREATE TABLE longhaul.blobs (
    size bigint NOT NULL,
    stored_at bigint NOT NULL,
    key_destroyed_at bigint,
    -- When to try to delete it: set by whatever makes it useless, none once it is deleted.
    bury_at bigint,
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
    -- What it can be read with, sealed with a key that is not in the database; none once it is destroyed.
    wrapped_key bytea,
    stored_by text NOT NULL,
    deleted_by text,
    failure text,
    PRIMARY KEY (tenant_id, id, path)
);

CREATE INDEX blobs_to_bury ON longhaul.blobs (bury_at) WHERE bury_at IS NOT NULL;
CREATE INDEX blobs_left ON longhaul.blobs (tenant_id) WHERE deleted_at IS NULL;
CREATE INDEX blobs_deleted ON longhaul.blobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX folders_left ON longhaul.blobs (path) WHERE role = 'folder' AND deleted_at IS NULL;
-- Payloads whose jobs may never have been claimed.
CREATE INDEX payloads_held ON longhaul.blobs (stored_at)
WHERE role = 'payload' AND wrapped_key IS NOT NULL;
