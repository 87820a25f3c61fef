//! What a store knows of the processes that share it.

use std::time::Duration;

use crate::job::{Name, Timestamp};

/// A replica that has been silent for this long is forgotten.
pub const REPLICA_FORGOTTEN_AFTER: Duration = Duration::from_hours(24);

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The replica's name: one name, one living process.
    pub replica: String,
    /// Drawn at its start: tells a process from another one that was given the same name.
    pub run: u64,
    /// What it does: `all`, `api` or `worker`.
    pub role: String,
    /// The version of its program.
    pub version: String,
    /// The host it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The kinds that it declares, whether or not it runs them.
    pub kinds: Vec<Name>,
    /// Jobs that it runs now.
    pub running: u32,
    /// Jobs that it runs at most.
    pub concurrency: u32,
    /// It is taken for dead after so long without another beat.
    pub silent_after: Duration,
}

/// A replica as it was last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Its last sign of life.
    pub heartbeat: Heartbeat,
    /// When this run of it was first heard of.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Whether that is not too long ago.
    pub alive: bool,
}

impl Heartbeat {
    /// Whether a replica that said this at `seen_at` is taken for alive at `now`.
    pub fn is_alive(&self, seen_at: Timestamp, now: Timestamp) -> bool {
        seen_at.after(self.silent_after) > now
    }
}
