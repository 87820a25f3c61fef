-- Who may use the service, and how much of it. Jobs name their tenant and need no row here.
CREATE TABLE longhaul.tenants (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    -- 'active', 'past_due' or 'suspended'.
    subscription text COLLATE "C" NOT NULL,
    inactive_since bigint,
    -- A JSON object; what it does not name is as the configuration says.
    limits text COLLATE "C" NOT NULL,
    -- What the payment provider calls it, and when that one last said something of it.
    billing_id text COLLATE "C" UNIQUE,
    billed_at bigint,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);

CREATE INDEX tenants_changed ON longhaul.tenants (changed_at);

-- Keys by their public part. The secret part is nowhere: digest is an HMAC of it under a key of the server's
-- (server_key is that one's id) that is not in the database.
CREATE TABLE longhaul.api_keys (
    id text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Words with spaces between.
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

-- Events of the payment provider that were applied: it repeats itself.
CREATE TABLE longhaul.billing_events (
    id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
);

-- Who did what.
CREATE TABLE longhaul.audit (
    -- A ULID, so that the order of ids is that of time.
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
