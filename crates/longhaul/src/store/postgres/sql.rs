//! Every SQL statement, one per file, grouped like the modules that run them.

statements! {
    "submit" {
        DEQUEUE = "dequeue";
        ENQUEUE = "enqueue";
        ENQUEUE_INCOMING = "enqueue_incoming";
        FIND_KEYS = "find_keys";
        FIND_STEP = "find_step";
        FINGERPRINTS = "fingerprints";
        FORK_JOB = "fork_job";
        INSERT_JOBS = "insert_jobs";
        INSERT_JOBS_WITHOUT_KEYS = "insert_jobs_without_keys";
        SUBMIT = "submit";
    }
    "claim" {
        ADVANCE_LANES = "advance_lanes";
        CLAIM_HEADS = "claim_heads";
        CLAIM_JOBS = "claim_jobs";
        CLAIMED_BEFORE = "claimed_before";
        CREATE_LIMIT_COUNTERS = "create_limit_counters";
        FORGET_LANES = "forget_lanes";
        LIMIT_COUNTERS = "limit_counters";
        LOCK_LIMIT_COUNTERS = "lock_limit_counters";
        NEXT_DUE = "next_due";
        SUBMIT_AND_CLAIM = "submit_and_claim";
        QUARANTINE = "quarantine";
        REWIND_LANES = "rewind_lanes";
        SAVE_LIMIT_COUNTERS = "save_limit_counters";
        TRY_LOCK_LIMIT_COUNTERS = "try_lock_limit_counters";
        VERIFY_LANES = "verify_lanes";
    }
    "settle" {
        END_ATTEMPTS = "end_attempts";
        END_JOBS = "end_jobs";
        END_SHARED_JOBS = "end_shared_jobs";
        HISTORIES = "histories";
    }
    "leases" {
        APPEND_OUTPUT = "append_output";
        INSERT_FOREIGN_STEPS = "insert_foreign_steps";
        INSERT_STEPS = "insert_steps";
        LOCK_LEASES = "lock_leases";
        RECORD_WORK_DIR = "record_work_dir";
        RENEW = "renew";
        SAVE_LEASES = "save_leases";
        SPLIT_LEASES_OF_CLAIM = "split_leases_of_claim";
        SPLIT_LEASES_OF_JOBS = "split_leases_of_jobs";
        STORED_STEPS = "stored_steps";
        TRIM_OUTPUT = "trim_output";
    }
    "control" {
        DELETE_JOB = "delete_job";
        FINISH_JOB = "finish_job";
        LOCK_JOB = "lock_job";
        PAUSE_QUEUE = "pause_queue";
        REOPEN_JOB = "reopen_job";
        RESUME_QUEUE = "resume_queue";
    }
    "lists" {
        LIST_BY_ID = "by_id";
        LIST_END_BY_ID = "end_by_id";
        LIST_END_FINISHED = "end_finished";
        LIST_END_OF_PARENT = "end_of_parent";
        LIST_END_PENDING = "end_pending";
        LIST_FINISHED = "finished";
        LIST_OF_PARENT = "of_parent";
        LIST_PENDING = "pending";
        LIST_RUNNING = "running";
    }
    "queries" {
        BLOB_BYTES = "blob_bytes";
        BLOBS = "blobs";
        COUNT_PENDING = "count_pending";
        COUNT_PENDING_IN_QUEUE = "count_pending_in_queue";
        ENTRIES = "entries";
        FIND_TOMBSTONE = "find_tombstone";
        INPUT = "input";
        OUTPUT = "output";
        QUEUE_TOTALS = "queue_totals";
        QUEUES = "queues";
        RECORDS = "records";
        STEPS = "steps";
        USAGE = "usage";
        VERSIONS = "versions";
    }
    "maintenance" {
        ADD_USAGE = "add_usage";
        BLOBS_TO_DELETE = "blobs_to_delete";
        DELETE_EXPIRED = "delete_expired";
        DELETE_SHARED_LEASES = "delete_shared_leases";
        EXPIRE_PAYLOADS = "expire_payloads";
        EXPIRED_PAYLOADS = "expired_payloads";
        FORGET_BLOBS = "forget_blobs";
        FORGET_TOMBSTONES = "forget_tombstones";
        FORGET_USAGE = "forget_usage";
        INSERT_BLOBS = "insert_blobs";
        LOCK_EXPIRED_LEASES = "lock_expired_leases";
        ORPHAN_BLOBS = "orphan_blobs";
        PRUNE_OUTPUT = "prune_output";
        RAISE_FINISHED_EPOCHS = "raise_finished_epochs";
        RAISE_JOB_EPOCHS = "raise_job_epochs";
        RAISE_LEASE_EPOCHS = "raise_lease_epochs";
        RECORD_DELETIONS = "record_deletions";
        RETRY_DELETIONS = "retry_deletions";
        ROLL_UP_USAGE = "roll_up_usage";
        SPLIT_ALL_LEASES = "split_all_leases";
        SPLIT_EXPIRED_LEASES = "split_expired_leases";
        WORK_DIRS = "work_dirs";
    }
    "accounts" {
        ANY_API_KEY = "any_api_key";
        API_KEY = "api_key";
        API_KEYS = "api_keys";
        API_KEYS_OF_TENANT = "api_keys_of_tenant";
        AUDIT = "audit";
        AUDIT_OF_TARGET = "audit_of_target";
        AUDIT_OF_TENANT = "audit_of_tenant";
        CHANGED_API_KEYS = "changed_api_keys";
        CHANGED_TENANTS = "changed_tenants";
        END_API_KEY = "end_api_key";
        FORGET_AUDIT = "forget_audit";
        INSERT_API_KEY = "insert_api_key";
        INSERT_AUDIT = "insert_audit";
        INSERT_BILLING_EVENT = "insert_billing_event";
        INSERT_TENANT = "insert_tenant";
        LOCK_BILLED_TENANTS = "lock_billed_tenants";
        LOCK_FIRST_KEY = "lock_first_key";
        LOCK_TENANT = "lock_tenant";
        RECORD_API_KEY_USE = "record_api_key_use";
        REDIGEST_API_KEY = "redigest_api_key";
        REVOKE_API_KEY = "revoke_api_key";
        SAVE_TENANT = "save_tenant";
        TENANT = "tenant";
        TENANTS = "tenants";
    }
    "endpoints" {
        DELETE_ENDPOINT = "delete_endpoint";
        ENDPOINT = "endpoint";
        ENDPOINT_VERSION = "endpoint_version";
        ENDPOINTS = "endpoints";
        LOCK_ENDPOINT = "lock_endpoint";
        SAVE_ENDPOINT = "save_endpoint";
        SUBSCRIPTIONS = "subscriptions";
    }
    "replicas" {
        DEREGISTER = "deregister";
        FORGET_REPLICAS = "forget_replicas";
        HEARTBEAT = "heartbeat";
        REPLICAS = "replicas";
        TAKE_OVER = "take_over";
    }
    "transfer" {
        EXPORT_API_KEYS = "export_api_keys";
        EXPORT_AUDIT = "export_audit";
        EXPORT_BILLING_EVENTS = "export_billing_events";
        EXPORT_BLOBS = "export_blobs";
        EXPORT_ENDPOINTS = "export_endpoints";
        EXPORT_JOB_IDS = "export_job_ids";
        EXPORT_JOBS = "export_jobs";
        EXPORT_LIMIT_COUNTERS = "export_limit_counters";
        EXPORT_PAUSED_QUEUES = "export_paused_queues";
        EXPORT_TENANTS = "export_tenants";
        EXPORT_TOMBSTONES = "export_tombstones";
        EXPORT_USAGE = "export_usage";
        IMPORT_JOBS = "import_jobs";
        IMPORT_ROWS = "import_rows";
        IMPORT_STEPS = "import_steps";
    }
    "schema" {
        BACKEND = "backend";
        CREATE_MIGRATIONS = "create_migrations";
        CREATE_SCHEMA = "create_schema";
        MISSING_ROW_SECURITY = "missing_row_security";
        NOW = "now";
        RECORD_MIGRATION = "record_migration";
        ROW_SECURITY_WORKS = "row_security_works";
        SCHEMA_VERSION = "schema_version";
        SERVER_SETTINGS = "server_settings";
    }
}

/// Migrations in order; the first one creates version 1.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("sql/migrations/0001_initial.sql")];
