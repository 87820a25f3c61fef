//! Heartbeats and states of the processes that share a store.

use std::time::Duration;

use crate::job::{Name, Timestamp};

/// Time without a heartbeat after which a replica is deleted from the registry.
pub const REPLICA_FORGOTTEN_AFTER: Duration = Duration::from_hours(24);

/// A heartbeat of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Replica name. Unique among running processes.
    pub replica: String,
    /// Random number drawn at start, which distinguishes processes with the same name.
    pub run: u64,
    /// Role: `all`, `api` or `worker`.
    pub role: String,
    /// Program version.
    pub version: String,
    /// Host name.
    pub host: String,
    /// Process id on the host.
    pub pid: u32,
    /// Boot, process id namespace and start of the process, which distinguish it from others with its id. Empty if
    /// unknown.
    pub process: String,
    /// Declared kinds, including those that it does not run.
    pub kinds: Vec<Name>,
    /// Number of running jobs.
    pub running: u32,
    /// Maximum number of running jobs.
    pub concurrency: u32,
    /// Time without a heartbeat after which the replica counts as dead.
    pub silent_after: Duration,
}

/// A replica with its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Last heartbeat.
    pub heartbeat: Heartbeat,
    /// Time of the first heartbeat of this process.
    pub started_at: Timestamp,
    /// Time of the last heartbeat.
    pub seen_at: Timestamp,
    /// If true, the last heartbeat is recent enough.
    pub alive: bool,
}

impl Heartbeat {
    /// Returns true if a replica with this heartbeat at `seen_at` is alive at `now`.
    pub fn is_alive(&self, seen_at: Timestamp, now: Timestamp) -> bool {
        seen_at.after(self.silent_after) > now
    }
}
