//! From an attempt to those who wait for its words in the same process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::{JobId, TenantId};
use tokio::sync::watch;

/// What is kept of a running answer for those who read slower than it comes.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Where attempts put the pieces of their answers, and readers find them. By tenant too: whoever knows another tenant's
/// id must not read along.
///
/// Each job that runs or is read has a log of its newest pieces. Readers have places in it, so that one who is
/// slow holds nobody up and costs nothing; who falls further behind than the log reaches has missed something, and is
/// told so.
#[derive(Clone, Default)]
pub struct StreamLogs(Arc<Mutex<Logs>>);

type Key = (TenantId, JobId);
type Logs = HashMap<Key, Log>;

#[derive(Default)]
struct Log {
    /// Attempts and readers that have it.
    held: usize,
    /// Counts the attempts that wrote here.
    run: u64,
    /// The number of the first piece that is kept.
    first: usize,
    pieces: VecDeque<Arc<str>>,
    bytes: usize,
    changed: watch::Sender<()>,
}

/// What a reader finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamRead {
    /// The next piece of the attempt of this number.
    Chunk(u64, Arc<str>),
    /// A piece of this attempt is no longer there.
    Missed(u64),
}

/// A hold on the log of a job; it goes with the last one.
struct LogHandle {
    stream_logs: StreamLogs,
    key: Key,
}

/// An attempt's end of a log.
pub(super) struct StreamWriter(LogHandle);

/// A reader's end of a log.
pub struct StreamReader {
    held: LogHandle,
    run: u64,
    place: usize,
    changed: watch::Receiver<()>,
}

impl StreamLogs {
    fn hold(&self, key: Key) -> LogHandle {
        self.lock().entry(key.clone()).or_default().held += 1;
        LogHandle { stream_logs: self.clone(), key }
    }

    /// Begins the log anew: what an earlier attempt wrote is not what this one will say.
    pub(super) fn write(&self, tenant: &TenantId, job: JobId) -> StreamWriter {
        let writer = StreamWriter(self.hold((tenant.clone(), job)));
        writer.0.change(|log| {
            log.run += 1;
            (log.first, log.bytes) = (0, 0);
            log.pieces.clear();
        });
        writer
    }

    /// Reads a job's answer from the beginning of the attempt that runs, or of the next one.
    pub fn read(&self, tenant: &TenantId, job: JobId) -> StreamReader {
        let held = self.hold((tenant.clone(), job));
        let changed = held.change(|log| log.changed.subscribe()).unwrap_or_else(|| {
            // LogHandle just now, so it is there; a reader without a log waits for the job's end.
            watch::Sender::default().subscribe()
        });
        StreamReader { held, run: 0, place: 0, changed }
    }

    /// Jobs that are written or read.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is written or read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogHandle {
    fn change<T>(&self, change: impl FnOnce(&mut Log) -> T) -> Option<T> {
        self.stream_logs.lock().get_mut(&self.key).map(change)
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        let mut logs = self.stream_logs.lock();
        let left = logs.get_mut(&self.key).map(|log| {
            log.held = log.held.saturating_sub(1);
            log.held
        });
        if left == Some(0) {
            logs.remove(&self.key);
        }
    }
}

impl StreamWriter {
    /// Adds a piece, and forgets the oldest ones if there are too many.
    pub(super) fn add(&self, piece: &str) {
        self.0.change(|log| {
            log.bytes += piece.len();
            log.pieces.push_back(piece.into());
            while log.bytes > KEPT_BYTES_MAX {
                let Some(oldest) = log.pieces.pop_front() else { break };
                log.bytes = log.bytes.saturating_sub(oldest.len());
                log.first += 1;
            }
            log.changed.send_replace(());
        });
    }
}

impl StreamReader {
    /// The next piece, once there is one. It waits for ever if none comes: whoever reads also watches the job.
    pub async fn next(&mut self) -> StreamRead {
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

    /// The next piece, if it is there.
    pub fn now(&mut self) -> Option<StreamRead> {
        let (run, place) = (&mut self.run, &mut self.place);
        self.held.change(|log| {
            if log.run != *run {
                (*run, *place) = (log.run, 0);
            }
            if *place < log.first {
                *place = log.first;
                return Some(StreamRead::Missed(*run));
            }
            let piece = log.pieces.get(*place - log.first)?;
            *place += 1;
            Some(StreamRead::Chunk(*run, Arc::clone(piece)))
        })?
    }
}

impl fmt::Debug for StreamLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamLogs").field("jobs", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Timestamp;

    fn job(number: u128) -> (TenantId, JobId) {
        (TenantId::default(), JobId::from_parts(Timestamp::from_millis(1), number))
    }

    fn piece(run: u64, text: &str) -> StreamRead {
        StreamRead::Chunk(run, text.into())
    }

    #[tokio::test]
    async fn readers_find_what_was_written_before_and_after_they_came() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(1));
        let mut early = stream_logs.read(&tenant, id);
        assert_eq!(early.now(), None);
        let writer = stream_logs.write(&tenant, id);
        writer.add("one");
        let mut late = stream_logs.read(&tenant, id);
        writer.add("two");
        for reader in [&mut early, &mut late] {
            assert_eq!(reader.next().await, piece(1, "one"));
            assert_eq!(reader.next().await, piece(1, "two"));
            assert_eq!(reader.now(), None);
        }
        let mut other = stream_logs.read(&TenantId::new("other").unwrap(), id);
        assert_eq!(other.now(), None, "another tenant's job of the same id is another job");
        drop((early, late, other, writer));
        assert!(stream_logs.is_empty());
    }

    #[tokio::test]
    async fn second_attempt_begins_anew_under_another_number() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(2));
        let mut reader = stream_logs.read(&tenant, id);
        let writer = stream_logs.write(&tenant, id);
        writer.add("one");
        assert_eq!(reader.next().await, piece(1, "one"));
        drop(writer);
        let writer = stream_logs.write(&tenant, id);
        assert_eq!(reader.now(), None);
        writer.add("uno");
        assert_eq!(reader.next().await, piece(2, "uno"));
    }

    #[test]
    fn reader_that_falls_behind_is_told_that_it_missed_something() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(3));
        let mut reader = stream_logs.read(&tenant, id);
        let writer = stream_logs.write(&tenant, id);
        let half = "x".repeat(KEPT_BYTES_MAX / 2);
        for _ in 0..3 {
            writer.add(&half);
        }
        assert_eq!(reader.now(), Some(StreamRead::Missed(1)));
        assert_eq!(reader.now(), Some(piece(1, &half)));
        assert_eq!(reader.now(), Some(piece(1, &half)));
        assert_eq!(reader.now(), None);
    }
}
