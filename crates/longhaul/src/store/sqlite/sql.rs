//! Every SQL statement, one per file, grouped like the modules that run them.

statements! {
    "submit" {
        DEQUEUE = "dequeue";
        ENQUEUE = "enqueue";
        FIND_KEY = "find_key";
        FIND_STEP = "find_step";
        FORK_STEPS = "fork_steps";
        INSERT_INPUT = "insert_input";
        INSERT_JOB = "insert_job";
    }
    "claim" {
        ANY_PAUSED = "any_paused";
        INSERT_LEASE = "insert_lease";
        IS_PAUSED = "is_paused";
        IS_READY = "is_ready";
        LIMIT_COUNTERS = "limit_counters";
        NEXT_DUE = "next_due";
        NEXT_OUTBOX = "next_outbox";
        NEXT_OUTBOX_QUEUE = "next_outbox_queue";
        NEXT_QUEUE = "next_queue";
        NEXT_TENANT = "next_tenant";
        PENDING_JOB = "pending_job";
        PROMOTE_DUE = "promote_due";
        QUARANTINE = "quarantine";
        QUARANTINE_LEASE = "quarantine_lease";
        READY_OF_OUTBOX = "ready_of_outbox";
        READY_OF_QUEUE = "ready_of_queue";
        READY_OF_TENANT = "ready_of_tenant";
        RELEASE_LIMITS = "release_limits";
        SAVE_LIMIT_COUNTERS = "save_limit_counters";
    }
    "settle" {
        HISTORY = "history";
    }
    "leases" {
        DELETE_LEASE = "delete_lease";
        FIND_LEASED = "find_leased";
        INSERT_STEP = "insert_step";
        RENEW = "renew";
        SAVE_LEASE = "save_lease";
    }
    "control" {
        DELETE_FINISHED = "delete_finished";
        DELETE_INPUT = "delete_input";
        DELETE_JOB = "delete_job";
        DELETE_STEPS = "delete_steps";
        FINISH_JOB = "finish_job";
        INSERT_TOMBSTONE = "insert_tombstone";
        PAUSE_JOBS = "pause_jobs";
        PAUSE_QUEUE = "pause_queue";
        RESUME_JOBS = "resume_jobs";
        RESUME_QUEUE = "resume_queue";
        SAVE_JOB = "save_job";
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
        COUNT_STEPS = "count_steps";
        FIND_JOB = "find_job";
        FIND_TOMBSTONE = "find_tombstone";
        INPUT = "input";
        JOB = "job";
        ORIGIN = "origin";
        QUEUE_TOTALS = "queue_totals";
        QUEUES = "queues";
        READABLE_BLOBS = "readable_blobs";
        RECORD = "record";
        RESULT = "result";
        STEPS = "steps";
        USAGE = "usage";
        VERSIONS = "versions";
    }
    "maintenance" {
        ADD_USAGE = "add_usage";
        BLOBS_TO_DELETE = "blobs_to_delete";
        EXPIRE_BLOBS = "expire_blobs";
        EXPIRE_LEASES = "expire_leases";
        EXPIRE_PAYLOAD = "expire_payload";
        EXPIRED_JOBS = "expired_jobs";
        EXPIRED_LEASES = "expired_leases";
        EXPIRED_PAYLOADS = "expired_payloads";
        FIND_BLOB = "find_blob";
        FORGET_BLOBS = "forget_blobs";
        FORGET_TOMBSTONES = "forget_tombstones";
        FORGET_USAGE = "forget_usage";
        INSERT_BLOB = "insert_blob";
        RAISE_FINISHED_EPOCHS = "raise_finished_epochs";
        RAISE_JOB_EPOCHS = "raise_job_epochs";
        RAISE_LEASE_EPOCHS = "raise_lease_epochs";
        RECORD_DELETION = "record_deletion";
        RETRY_DELETION = "retry_deletion";
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
        BILLED_TENANTS = "billed_tenants";
        CHANGED_API_KEYS = "changed_api_keys";
        CHANGED_TENANTS = "changed_tenants";
        END_API_KEY = "end_api_key";
        FORGET_AUDIT = "forget_audit";
        INSERT_API_KEY = "insert_api_key";
        INSERT_AUDIT = "insert_audit";
        INSERT_BILLING_EVENT = "insert_billing_event";
        INSERT_TENANT = "insert_tenant";
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
        ENDPOINTS = "endpoints";
        SAVE_ENDPOINT = "save_endpoint";
        SUBSCRIPTIONS = "subscriptions";
    }
    "replicas" {
        DEREGISTER = "deregister";
        FORGET_REPLICAS = "forget_replicas";
        HEARTBEAT = "heartbeat";
        REPLICAS = "replicas";
        TAKE_OVER = "take_over";
        TAKE_OVER_LEASES = "take_over_leases";
    }
    "transfer" {
        COUNT_JOBS = "count_jobs";
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
    }
    "schema" {
        CREATE_QUEUE_INDEX = "create_queue_index";
        DROP_QUEUE_INDEX = "drop_queue_index";
    }
}
