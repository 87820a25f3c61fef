-- What finished jobs used, by hour. Kept longer than the jobs.
CREATE TABLE usage (
    tenant_id TEXT NOT NULL,
    -- When the hour began.
    hour INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- The id of an API key, or nothing.
    key_id TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    run_ms INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, hour, kind, key_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_hour ON usage (hour);

-- Tells this file from others, so that one that is copied twice is counted once.
CREATE TABLE origin (id TEXT NOT NULL) STRICT;

INSERT INTO origin (id) VALUES (lower(hex(randomblob(16))));

-- What a job used that nobody has metered yet. All of these come after the history, which is no harm:
-- nothing and small numbers are stored without a byte.

-- The id of the API key that submitted it.
ALTER TABLE jobs ADD COLUMN key_id TEXT;
-- When the running attempt was claimed.
ALTER TABLE jobs ADD COLUMN claimed_at INTEGER;
-- How long attempts ran since the job was last metered.
ALTER TABLE jobs ADD COLUMN run_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN payload_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN metered INTEGER NOT NULL DEFAULT 0;
-- Finished steps that were metered, or that a fork began with.
ALTER TABLE jobs ADD COLUMN metered_steps INTEGER NOT NULL DEFAULT 0;

UPDATE jobs SET payload_bytes = coalesce((
    SELECT blob.size FROM blobs AS blob
    WHERE blob.tenant_id = jobs.tenant_id AND blob.id = jobs.id AND blob.role = 'payload'
), 0)
WHERE has_payload;
