//! Every statement, one a file.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("sql/", $file, ".sql"));)*

        /// All of them by name, for the test that prepares each.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

statements! {
    ADD_USAGE = "add_usage";
    ANY_API_KEY = "any_api_key";
    API_KEY = "api_key";
    API_KEYS = "api_keys";
    API_KEYS_OF_TENANT = "api_keys_of_tenant";
    AUDIT = "audit";
    AUDIT_OF_TARGET = "audit_of_target";
    AUDIT_OF_TENANT = "audit_of_tenant";
    BACKEND = "backend";
    BEAT = "beat";
    BLOBS = "blobs";
    BLOB_BYTES = "blob_bytes";
    BURY_BLOBS = "bury_blobs";
    CHANGED_API_KEYS = "changed_api_keys";
    CHANGED_TENANTS = "changed_tenants";
    CHECK_LANES = "check_lanes";
    CLAIMED_BEFORE = "claimed_before";
    CLAIM_HEADS = "claim_heads";
    CLAIM_JOBS = "claim_jobs";
    COUNT_TOMBSTONES = "count_tombstones";
    DELETE_ENDPOINT = "delete_endpoint";
    DELETE_EXPIRED = "delete_expired";
    DELETE_JOB = "delete_job";
    DOOMED_BLOBS = "doomed_blobs";
    DOOM_PAYLOADS = "doom_payloads";
    ENDPOINT = "endpoint";
    ENDPOINTS = "endpoints";
    ENDPOINT_VERSION = "endpoint_version";
    END_API_KEY = "end_api_key";
    END_ATTEMPTS = "end_attempts";
    END_JOBS = "end_jobs";
    ENTER_LINE = "enter_line";
    ENTRIES = "entries";
    EXPIRED_PAYLOADS = "expired_payloads";
    EXPORT_JOBS = "export_jobs";
    FIND_KEYS = "find_keys";
    FIND_STEP = "find_step";
    FIND_TOMBSTONE = "find_tombstone";
    FINGERPRINTS = "fingerprints";
    FOLDERS = "folders";
    FORGET_AUDIT = "forget_audit";
    FORGET_BLOBS = "forget_blobs";
    FORGET_REPLICAS = "forget_replicas";
    FORGET_TOMBSTONES = "forget_tombstones";
    FORGET_USAGE = "forget_usage";
    FORK_JOB = "fork_job";
    GLIMPSE = "glimpse";
    HISTORIES = "histories";
    IMPORT_BLOBS = "import_blobs";
    IMPORT_JOBS = "import_jobs";
    IMPORT_STEPS = "import_steps";
    IMPORT_TOMBSTONES = "import_tombstones";
    IMPORT_USAGE = "import_usage";
    INPUT = "input";
    INSERT_API_KEY = "insert_api_key";
    INSERT_AUDIT = "insert_audit";
    INSERT_BILLING_EVENT = "insert_billing_event";
    INSERT_BLOBS = "insert_blobs";
    INSERT_FOREIGN_STEPS = "insert_foreign_steps";
    INSERT_JOBS = "insert_jobs";
    INSERT_STEPS = "insert_steps";
    INSERT_TENANT = "insert_tenant";
    KEEP_FOLDER = "keep_folder";
    KEEP_TRYING = "keep_trying";
    LEAVE = "leave";
    LEAVE_LINE = "leave_line";
    LISTENERS = "listeners";
    LIST_BY_ID = "list_by_id";
    LIST_OF_PARENT = "list_of_parent";
    LIST_PENDING = "list_pending";
    LIST_RUNNING = "list_running";
    LIST_SETTLED = "list_settled";
    LOCK_BILLED_TENANTS = "lock_billed_tenants";
    LOCK_ENDPOINT = "lock_endpoint";
    LOCK_FIRST_KEY = "lock_first_key";
    LOCK_JOB = "lock_job";
    LOCK_LEASES = "lock_leases";
    LOCK_LOST_LEASES = "lock_lost_leases";
    LOCK_METERS = "lock_meters";
    LOCK_TENANT = "lock_tenant";
    LOWER_LANES = "lower_lanes";
    MAKE_METERS = "make_meters";
    MAKE_MIGRATIONS = "make_migrations";
    MAKE_SCHEMA = "make_schema";
    METERS = "meters";
    MISSING_WALL = "missing_wall";
    MOVE_ARRIVALS = "move_arrivals";
    NEXT_DUE = "next_due";
    NOTE_MIGRATION = "note_migration";
    NOTE_USE = "note_use";
    NOW = "now";
    PAUSE_QUEUE = "pause_queue";
    PENDING = "pending";
    PENDING_IN_QUEUE = "pending_in_queue";
    QUEUES = "queues";
    RAISE_LANES = "raise_lanes";
    RECORDS = "records";
    REDIGEST_API_KEY = "redigest_api_key";
    RENEW = "renew";
    REPLICAS = "replicas";
    RESUME_QUEUE = "resume_queue";
    REVOKE_API_KEY = "revoke_api_key";
    ROLL_UP_USAGE = "roll_up_usage";
    SAVE_ENDPOINT = "save_endpoint";
    SAVE_JOB = "save_job";
    SAVE_LEASES = "save_leases";
    SAVE_METERS = "save_meters";
    SAVE_TENANT = "save_tenant";
    SCHEMA_VERSION = "schema_version";
    SET_ASIDE = "set_aside";
    STEPS = "steps";
    STORED_STEPS = "stored_steps";
    STRAY_BLOBS = "stray_blobs";
    SUBMIT = "submit";
    TENANT = "tenant";
    TENANTS = "tenants";
    TRY_LOCK_METERS = "try_lock_meters";
    USAGE = "usage";
    WALL_STANDS = "wall_stands";
}

/// Migrations in their order; the first makes version 1.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("sql/migrations/0001_jobs.sql"),
    include_str!("sql/migrations/0002_replicas.sql"),
    include_str!("sql/migrations/0003_flow.sql"),
    include_str!("sql/migrations/0004_submit.sql"),
    include_str!("sql/migrations/0005_blobs.sql"),
    include_str!("sql/migrations/0006_accounts.sql"),
    include_str!("sql/migrations/0007_usage.sql"),
    include_str!("sql/migrations/0008_wall.sql"),
    include_str!("sql/migrations/0009_webhooks.sql"),
    include_str!("sql/migrations/0010_tokens.sql"),
];
