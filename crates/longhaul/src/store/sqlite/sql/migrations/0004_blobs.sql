-- What was stored for jobs elsewhere, and what became of it: payloads, artifacts, and working folders that
-- held a payload in clear. Kept longer than the job, for its receipt.
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
    -- What it can be read with, sealed with a key that is not in the database; none once it is destroyed.
    wrapped_key BLOB,
    stored_at INTEGER NOT NULL,
    stored_by TEXT NOT NULL,
    key_destroyed_at INTEGER,
    -- When to try to delete it: set by whatever makes it useless, none once it is deleted.
    bury_at INTEGER,
    deleted_at INTEGER,
    deleted_by TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    failure TEXT,
    PRIMARY KEY (tenant_id, id, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX blobs_to_bury ON blobs (bury_at) WHERE bury_at IS NOT NULL;
CREATE INDEX blobs_left ON blobs (tenant_id) WHERE deleted_at IS NULL;
CREATE INDEX blobs_deleted ON blobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX folders_left ON blobs (path) WHERE role = 'folder' AND deleted_at IS NULL;
-- Payloads whose jobs may never have been claimed.
CREATE INDEX payloads_held ON blobs (stored_at) WHERE role = 'payload' AND wrapped_key IS NOT NULL;
