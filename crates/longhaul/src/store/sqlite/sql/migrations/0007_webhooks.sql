-- Who is told of what happens to jobs. `webhook` is a job's own, as JSON.
ALTER TABLE jobs ADD COLUMN webhook TEXT;

-- What belongs to a job: its deliveries.
CREATE INDEX jobs_of_parent ON jobs (tenant_id, parent_id, id) WHERE parent_id IS NOT NULL;

-- Where tenants want to be told. Secrets are sealed with a key that is not in the database.
CREATE TABLE endpoints (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Words with spaces between; none: all.
    events TEXT NOT NULL,
    -- Whether results of any size are sent.
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
