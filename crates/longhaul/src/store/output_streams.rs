//! Output streams: chunks of text from running attempts to readers in other processes.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{LeaseRef, StoreError};

/// The output streams of running attempts, for readers in other processes.
///
/// Chunks are not durable: no write waits for a sync, and they may be lost with a process or with the
/// database, because the result of the job is authoritative. Every chunk carries the epoch of its
/// attempt's lease and a number, from 0, so that readers notice a loss.
#[async_trait]
pub trait OutputStreamStore: Send + Sync {
    /// Returns false if no other process uses the store, so that appending would be in vain.
    fn has_peers(&self) -> bool;

    /// Returns a counter that rises when another process may have appended chunks. A notification may be
    /// late, repeated or lost.
    fn output_notifications(&self) -> watch::Receiver<u64>;

    /// Appends chunks of running attempts. Chunks whose lease is superseded or settled are discarded.
    /// Repeating the call with equal arguments changes nothing.
    async fn append_output(&self, appended: &[OutputChunks]) -> Result<(), StoreError>;

    /// Returns the chunks from each position on, in order, in at most `limit` parts per job. If there is an
    /// attempt with a higher epoch, returns the chunks of the newest one instead, from its first on, or an
    /// empty part if it has none yet.
    async fn read_output(
        &self,
        positions: &[OutputPosition],
        limit: usize,
    ) -> Result<Vec<OutputChunks>, StoreError>;

    /// Deletes the chunks before each position.
    async fn trim_output(&self, positions: &[OutputPosition]) -> Result<(), StoreError>;

    /// Deletes the chunks of up to `limit` attempts that have ended, for example with their process.
    /// Returns the number of attempts. Safe to run on all replicas at once.
    async fn prune_output(&self, limit: usize) -> Result<usize, StoreError>;
}

/// Consecutive chunks of one attempt's output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunks {
    /// Lease of the attempt.
    pub lease: LeaseRef,
    /// Number of the first chunk.
    pub first: u64,
    /// Texts of the chunks.
    pub chunks: Vec<Arc<str>>,
}

/// A position in an attempt's output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPosition {
    /// Lease of the attempt.
    pub lease: LeaseRef,
    /// Number of a chunk, which need not exist yet.
    pub chunk: u64,
}
