//! Output streams: chunks of text from running attempts to their readers.
//!
//! Each job that is written or read in this process has a log of its newest chunks, in memory. An attempt in
//! this process writes to the log directly. Chunks of attempts in other processes come through the store:
//! the worker's process appends them (`worker/output_flusher.rs`), and the reader's process polls them
//! (`engine/output_poller.rs`). Readers see no difference:
//!
//! - The chunks of one attempt arrive in order, each once. A reader that falls behind gets
//!   [`OutputRead::Missed`].
//! - An attempt is identified by the epoch of its lease. Chunks of a newer attempt replace the log, and those
//!   of an older one are ignored.

mod log;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use self::log::OutputLog;
use crate::job::{JobId, TenantId};
use crate::store::{LeaseRef, OutputChunks, OutputPosition};
use crate::sync::Mutex;

/// The output streams that are written or read in this process. Clones share all state.
#[derive(Clone, Default)]
pub(crate) struct OutputStreams(Arc<Registry>);

#[derive(Default)]
struct Registry {
    streams: Mutex<Streams>,
    /// Wakes the flusher: chunks were written.
    written: Notify,
    /// Wakes the flusher: an attempt has ended whose chunks are in the store.
    ended: Notify,
    /// Wakes the poller: there may be a log that another process writes.
    wanted: Notify,
}

#[derive(Default)]
struct Streams {
    logs: HashMap<LogKey, OpenLog>,
    /// Running attempts whose chunks may be in the store.
    flushed: HashSet<LeaseRef>,
    /// Attempts that have ended and whose chunks may be in the store, oldest first.
    ended: Vec<LeaseRef>,
}

/// The tenant is part of the key, so that knowing a job id gives no access.
type LogKey = (TenantId, JobId);

/// A log with its handles; deleted with the last one.
#[derive(Default)]
struct OpenLog {
    log: OutputLog,
    /// Open handles of attempts in this process.
    writers: usize,
    readers: usize,
    /// Newest epoch of an attempt in this process.
    own_epoch: u64,
    changed: watch::Sender<()>,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputRead {
    /// Epoch of the attempt and its next chunk.
    Chunk(u64, Arc<str>),
    /// The next chunk of this attempt is no longer available.
    Missed(u64),
}

/// A handle through which an attempt writes its output stream.
pub struct OutputWriter {
    registry: Arc<Registry>,
    lease: LeaseRef,
}

/// A reader of a job's output stream. Each has its own position, so that a slow one delays no other.
pub struct OutputReader {
    registry: Arc<Registry>,
    key: LogKey,
    epoch: u64,
    position: u64,
    changed: watch::Receiver<()>,
}

/// Changes to make in the store.
#[derive(Debug, Default)]
pub(crate) struct OutputFlush {
    pub(crate) appended: Vec<OutputChunks>,
    /// First chunk to keep of each stream whose log has dropped its oldest ones.
    pub(crate) trimmed: Vec<OutputPosition>,
}

impl OutputStreams {
    /// Starts the output stream of an attempt.
    pub(crate) fn write(&self, lease: &LeaseRef) -> OutputWriter {
        let mut streams = self.0.streams.lock();
        let open = streams.logs.entry((lease.tenant.clone(), lease.job)).or_default();
        open.writers += 1;
        open.own_epoch = open.own_epoch.max(lease.epoch);
        open.log.begin(lease.epoch, 0);
        OutputWriter { registry: Arc::clone(&self.0), lease: lease.clone() }
    }

    /// Reads from the start of the running attempt, or of the next one.
    pub(crate) fn read(&self, tenant: &TenantId, job: JobId) -> OutputReader {
        let key = (tenant.clone(), job);
        let mut streams = self.0.streams.lock();
        let open = streams.logs.entry(key.clone()).or_default();
        open.readers += 1;
        let changed = open.changed.subscribe();
        self.0.wanted.notify_one();
        OutputReader { registry: Arc::clone(&self.0), key, epoch: 0, position: 0, changed }
    }

    /// Returns the number of jobs whose output is written or read.
    pub(crate) fn len(&self) -> usize {
        self.0.streams.lock().logs.len()
    }

    /// Returns the position of each log that has readers here and no writer. Waits until there is one.
    pub(crate) async fn wanted(&self) -> Vec<OutputPosition> {
        loop {
            let wanted = self.wanted_now();
            if !wanted.is_empty() {
                return wanted;
            }
            self.0.wanted.notified().await;
        }
    }

    fn wanted_now(&self) -> Vec<OutputPosition> {
        let streams = self.0.streams.lock();
        let wanted = streams.logs.iter().filter(|(_, open)| open.readers > 0 && open.writers == 0);
        let position = |(key, open): (&LogKey, &OpenLog)| OutputPosition {
            lease: lease_of(key, open.log.epoch()),
            chunk: open.log.end(),
        };
        wanted.map(position).collect()
    }

    /// Adds chunks that another process has written.
    pub(crate) fn receive(&self, received: OutputChunks) {
        let OutputChunks { lease, first, chunks } = received;
        let mut streams = self.0.streams.lock();
        let open = streams.logs.get_mut(&(lease.tenant, lease.job));
        // Chunks that were read before an attempt started here may be older or its own.
        if let Some(open) = open.filter(|open| open.writers == 0) {
            open.log.receive(lease.epoch, first, chunks);
            open.changed.send_replace(());
        }
    }

    /// Waits until an attempt in this process has written.
    pub(crate) async fn written(&self) {
        self.0.written.notified().await;
    }

    /// Takes the chunks that attempts in this process have written since the last call. Leaves those
    /// beyond `bytes_max` to the next call.
    pub(crate) fn take_unflushed(&self, bytes_max: usize) -> OutputFlush {
        let mut flush = OutputFlush::default();
        let mut bytes = 0;
        let mut streams = self.0.streams.lock();
        let Streams { logs, flushed, .. } = &mut *streams;
        for (key, open) in logs.iter_mut().filter(|(_, open)| open.is_written_here()) {
            let lease = lease_of(key, open.own_epoch);
            if let Some(chunk) = open.log.take_trimmed() {
                flush.trimmed.push(OutputPosition { lease: lease.clone(), chunk });
            }
            while open.log.has_unflushed() {
                if bytes >= bytes_max {
                    self.0.written.notify_one();
                    return flush;
                }
                let (first, chunks) = open.log.take_unflushed();
                bytes += chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
                flushed.insert(lease.clone());
                flush.appended.push(OutputChunks { lease: lease.clone(), first, chunks });
            }
        }
        flush
    }

    /// Returns the number of ended attempts whose chunks may be in the store. Waits until there is one.
    pub(crate) async fn ended(&self) -> usize {
        loop {
            let ended = self.0.streams.lock().ended.len();
            if ended > 0 {
                return ended;
            }
            self.0.ended.notified().await;
        }
    }

    /// Takes the oldest `count` of the ended attempts, as the positions at which their streams end.
    pub(crate) fn take_ended(&self, count: usize) -> Vec<OutputPosition> {
        let mut streams = self.0.streams.lock();
        let count = count.min(streams.ended.len());
        let ended = streams.ended.drain(..count);
        ended.map(|lease| OutputPosition { lease, chunk: u64::MAX }).collect()
    }
}

fn lease_of((tenant, job): &LogKey, epoch: u64) -> LeaseRef {
    LeaseRef { tenant: tenant.clone(), job: *job, epoch }
}

impl OpenLog {
    /// Returns true if the log is that of an attempt in this process.
    fn is_written_here(&self) -> bool {
        self.writers > 0 && self.own_epoch == self.log.epoch()
    }
}

impl Streams {
    /// Removes a handle, and the log with its last one.
    fn close(&mut self, key: &LogKey, close: impl FnOnce(&mut OpenLog)) {
        if let Some(open) = self.logs.get_mut(key) {
            close(open);
            if open.writers == 0 && open.readers == 0 {
                self.logs.remove(key);
            }
        }
    }
}

impl OutputWriter {
    /// Appends a chunk. Readers in this process get it at once, others within the flush interval.
    pub fn add(&self, chunk: &str) {
        let key = (self.lease.tenant.clone(), self.lease.job);
        if let Some(open) = self.registry.streams.lock().logs.get_mut(&key)
            && open.log.epoch() == self.lease.epoch
        {
            open.log.push(chunk.into());
            open.changed.send_replace(());
            self.registry.written.notify_one();
        }
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        let key = (self.lease.tenant.clone(), self.lease.job);
        let mut streams = self.registry.streams.lock();
        streams.close(&key, |open| open.writers = open.writers.saturating_sub(1));
        if streams.flushed.remove(&self.lease) {
            streams.ended.push(self.lease.clone());
            self.registry.ended.notify_one();
        }
        drop(streams);
        // The next attempt may run in another process.
        self.registry.wanted.notify_one();
    }
}

impl OutputReader {
    /// Waits for the next chunk, for ever if none arrives. Callers also watch the job.
    pub async fn next(&mut self) -> OutputRead {
        loop {
            self.changed.borrow_and_update();
            if let Some(read) = self.now() {
                return read;
            }
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the next chunk if it is available.
    pub fn now(&mut self) -> Option<OutputRead> {
        let streams = self.registry.streams.lock();
        let log = &streams.logs.get(&self.key)?.log;
        if log.epoch() != self.epoch {
            (self.epoch, self.position) = (log.epoch(), 0);
        }
        if self.position < log.first() {
            self.position = log.first();
            return Some(OutputRead::Missed(self.epoch));
        }
        let chunk = log.get(self.position)?;
        self.position += 1;
        Some(OutputRead::Chunk(self.epoch, Arc::clone(chunk)))
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        let close = |open: &mut OpenLog| open.readers = open.readers.saturating_sub(1);
        self.registry.streams.lock().close(&self.key, close);
    }
}

impl fmt::Debug for OutputWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputWriter").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputReader").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
