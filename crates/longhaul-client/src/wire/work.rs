//! Queues, kinds and replicas.

use super::Instant;
use crate::duration::DurationText;

responses! {
    /// A queue of the caller's tenant.
    pub struct Queue {
        /// Unique name.
        pub name: String,
        /// True if its jobs do not start.
        pub paused: bool,
        /// Pending jobs, due or not.
        pub pending: u64,
        /// Running jobs.
        pub running: u64,
        /// Due time of the oldest due job; null without one.
        pub oldest_due_at: Option<Instant>,
        /// Limit on concurrent jobs, over all tenants and replicas; null for no limit.
        pub running_max: Option<u32>,
        /// Limit on job starts, over all tenants and replicas, for example `100/1m` for 100 per minute;
        /// null for no limit.
        pub rate: Option<String>,
    }

    /// Queues of a tenant that have unfinished jobs or are paused.
    pub struct QueueList {
        /// Queues by name.
        pub queues: Vec<Queue>,
    }

    /// A kind of job.
    pub struct Kind {
        /// Unique name.
        pub name: String,
        /// Queue of jobs that name none.
        pub queue: String,
        /// Default number of attempts.
        pub max_attempts: u32,
        /// Default timeout of one attempt; null for no limit.
        pub timeout: Option<DurationText>,
        /// Concurrent jobs per replica; null for the limit of the replica.
        pub concurrency: Option<u32>,
    }

    /// Kinds that the server can run.
    pub struct KindList {
        /// Kinds by name.
        pub kinds: Vec<Kind>,
    }

    /// A process that shares the server's database.
    pub struct Replica {
        /// Unique name.
        pub name: String,
        /// Role: `all`, `api` or `worker`.
        pub role: String,
        /// Version of its program.
        pub version: String,
        /// Host that it runs on. Only for administrators.
        pub host: Option<String>,
        /// Process id on the host. Only for administrators.
        pub pid: Option<u32>,
        /// Kinds that it can run, by name.
        pub kinds: Vec<String>,
        /// Running jobs.
        pub running: u32,
        /// Limit on running jobs.
        pub concurrency: u32,
        /// Time of its first heartbeat.
        pub started_at: Instant,
        /// Time of its last heartbeat.
        pub seen_at: Instant,
        /// True if the last heartbeat is recent.
        pub alive: bool,
    }

    /// Replicas with a heartbeat within one day that have not deregistered.
    pub struct ReplicaList {
        /// Replicas by name.
        pub replicas: Vec<Replica>,
    }
}
