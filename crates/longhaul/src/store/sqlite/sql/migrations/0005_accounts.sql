-- Who may use the service, and how much of it. Jobs name their tenant and need no row here.
CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- 'active', 'past_due' or 'suspended'.
    subscription TEXT NOT NULL,
    inactive_since INTEGER,
    -- A JSON object; what it does not name is as the configuration says.
    limits TEXT NOT NULL,
    -- What the payment provider calls it, and when that one last said something of it.
    billing_id TEXT UNIQUE,
    billed_at INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tenants_changed ON tenants (changed_at);

-- Keys by their public part. The secret part is nowhere: digest is an HMAC of it under a key of the server's
-- (server_key is that one's id) that is not in the database.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Words with spaces between.
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

-- Events of the payment provider that were applied: it repeats itself.
CREATE TABLE billing_events (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who did what.
CREATE TABLE audit (
    -- A ULID, so that the order of ids is that of time.
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
