//! Where jobs wait and what can run them: queues, kinds and replicas.

use serde::{Deserialize, Serialize};

use super::Instant;
use crate::duration::DurationText;

/// A queue of the caller's tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether its jobs are held back.
    pub paused: bool,
    /// Jobs in line, due or not.
    pub pending: u64,
    /// Jobs that a worker runs.
    pub running: u64,
    /// When the job that has been due longest was due; null when none is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub oldest_due_at: Option<Instant>,
    /// Jobs of this queue that may run at once, over all tenants and replicas; null for no limit.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub running_max: Option<u32>,
    /// How fast jobs of this queue may start, over all tenants and replicas: `100/1m` is a hundred a
    /// minute; null for no limit.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub rate: Option<String>,
}

/// The tenant's queues that have unfinished jobs or are paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueList {
    /// The queues.
    pub queues: Vec<Queue>,
}

/// A kind of job that this server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// The queue of jobs that name none.
    pub queue: String,
    /// Attempts of jobs that name no number.
    pub max_attempts: u32,
    /// How long one attempt may take unless the job says; null for no limit.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub timeout: Option<DurationText>,
    /// Jobs at once per replica; null where only the replica's own limit counts.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub concurrency: Option<u32>,
}

/// The kinds that this server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindList {
    /// The kinds, by name.
    pub kinds: Vec<Kind>,
}

/// A process that shares the server's store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// What it does: `all`, `api` or `worker`.
    pub role: String,
    /// The version of its program.
    pub version: String,
    /// The host it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The kinds that it declares, by name.
    pub kinds: Vec<String>,
    /// Jobs that it runs.
    pub running: u32,
    /// Jobs that it runs at most.
    pub concurrency: u32,
    /// When it was first heard of.
    pub started_at: Instant,
    /// When it was last heard of.
    pub seen_at: Instant,
    /// Whether that is not too long ago.
    pub alive: bool,
}

/// The processes that were heard of within a day and did not say goodbye.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplicaList {
    /// The replicas, by name.
    pub replicas: Vec<Replica>,
}
