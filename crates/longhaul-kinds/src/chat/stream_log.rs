//! Logs of stream chunks, from attempts to readers in the same process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::{JobId, TenantId};
use tokio::sync::watch;

/// Bytes of a log, for readers that are slower than the target.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Logs by tenant and job. The tenant is part of the key, so that knowing a job id gives no access.
///
/// Each job that is written or read has a log of its newest chunks. Readers keep a position, so that a slow
/// one delays no other. A reader that falls behind the log gets [`StreamRead::Missed`].
#[derive(Clone, Default)]
pub struct StreamLogs(Arc<Mutex<Logs>>);

type LogKey = (TenantId, JobId);
type Logs = HashMap<LogKey, StreamLog>;

#[derive(Default)]
struct StreamLog {
    /// Open handles of attempts and readers.
    handles: usize,
    /// Number of attempts so far.
    run: u64,
    /// Index of the first chunk in the log.
    first: usize,
    chunks: VecDeque<Arc<str>>,
    bytes: usize,
    changed: watch::Sender<()>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamRead {
    /// Attempt number and next chunk.
    Chunk(u64, Arc<str>),
    /// The log of this attempt no longer has the next chunk.
    Missed(u64),
}

/// Handle of a log, which is deleted with its last handle.
struct LogHandle {
    stream_logs: StreamLogs,
    key: LogKey,
}

pub(super) struct StreamWriter(LogHandle);

pub struct StreamReader {
    handles: LogHandle,
    run: u64,
    position: usize,
    changed: watch::Receiver<()>,
}

impl StreamLogs {
    fn open(&self, key: LogKey) -> LogHandle {
        self.lock().entry(key.clone()).or_default().handles += 1;
        LogHandle { stream_logs: self.clone(), key }
    }

    /// Starts a new attempt and clears the log.
    pub(super) fn write(&self, tenant: &TenantId, job: JobId) -> StreamWriter {
        let writer = StreamWriter(self.open((tenant.clone(), job)));
        writer.0.change(|log| {
            log.run += 1;
            (log.first, log.bytes) = (0, 0);
            log.chunks.clear();
        });
        writer
    }

    /// Reads from the start of the running attempt, or of the next one.
    pub fn read(&self, tenant: &TenantId, job: JobId) -> StreamReader {
        let handles = self.open((tenant.clone(), job));
        let changed = handles.change(|log| log.changed.subscribe()).unwrap_or_else(|| {
            // Unreachable, because the handle keeps the log.
            watch::Sender::default().subscribe()
        });
        StreamReader { handles, run: 0, position: 0, changed }
    }

    /// Returns the number of jobs that are written or read.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogHandle {
    fn change<T>(&self, change: impl FnOnce(&mut StreamLog) -> T) -> Option<T> {
        self.stream_logs.lock().get_mut(&self.key).map(change)
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        let mut logs = self.stream_logs.lock();
        let left = logs.get_mut(&self.key).map(|log| {
            log.handles = log.handles.saturating_sub(1);
            log.handles
        });
        if left == Some(0) {
            logs.remove(&self.key);
        }
    }
}

impl StreamWriter {
    /// Appends a chunk, and drops the oldest ones over the limit.
    pub(super) fn add(&self, chunk: &str) {
        self.0.change(|log| {
            log.bytes += chunk.len();
            log.chunks.push_back(chunk.into());
            while log.bytes > KEPT_BYTES_MAX {
                let Some(oldest) = log.chunks.pop_front() else { break };
                log.bytes = log.bytes.saturating_sub(oldest.len());
                log.first += 1;
            }
            log.changed.send_replace(());
        });
    }
}

impl StreamReader {
    /// Waits for the next chunk, for ever if none arrives. Callers also watch the job.
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

    /// Returns the next chunk if it is available.
    pub fn now(&mut self) -> Option<StreamRead> {
        let (run, position) = (&mut self.run, &mut self.position);
        self.handles.change(|log| {
            if log.run != *run {
                (*run, *position) = (log.run, 0);
            }
            if *position < log.first {
                *position = log.first;
                return Some(StreamRead::Missed(*run));
            }
            let chunk = log.chunks.get(*position - log.first)?;
            *position += 1;
            Some(StreamRead::Chunk(*run, Arc::clone(chunk)))
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

    fn chunk(run: u64, text: &str) -> StreamRead {
        StreamRead::Chunk(run, text.into())
    }

    #[tokio::test]
    async fn readers_get_chunks_written_before_and_after_they_start() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(1));
        let mut early = stream_logs.read(&tenant, id);
        assert_eq!(early.now(), None);
        let writer = stream_logs.write(&tenant, id);
        writer.add("one");
        let mut late = stream_logs.read(&tenant, id);
        writer.add("two");
        for reader in [&mut early, &mut late] {
            assert_eq!(reader.next().await, chunk(1, "one"));
            assert_eq!(reader.next().await, chunk(1, "two"));
            assert_eq!(reader.now(), None);
        }
        let mut other = stream_logs.read(&TenantId::new("other").unwrap(), id);
        assert_eq!(other.now(), None, "another tenant's job of the same id is another job");
        drop((early, late, other, writer));
        assert!(stream_logs.is_empty());
    }

    #[tokio::test]
    async fn second_attempt_restarts_the_log_with_a_new_number() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(2));
        let mut reader = stream_logs.read(&tenant, id);
        let writer = stream_logs.write(&tenant, id);
        writer.add("one");
        assert_eq!(reader.next().await, chunk(1, "one"));
        drop(writer);
        let writer = stream_logs.write(&tenant, id);
        assert_eq!(reader.now(), None);
        writer.add("uno");
        assert_eq!(reader.next().await, chunk(2, "uno"));
    }

    #[test]
    fn reader_that_falls_behind_gets_missed() {
        let (stream_logs, (tenant, id)) = (StreamLogs::default(), job(3));
        let mut reader = stream_logs.read(&tenant, id);
        let writer = stream_logs.write(&tenant, id);
        let half = "x".repeat(KEPT_BYTES_MAX / 2);
        for _ in 0..3 {
            writer.add(&half);
        }
        assert_eq!(reader.now(), Some(StreamRead::Missed(1)));
        assert_eq!(reader.now(), Some(chunk(1, &half)));
        assert_eq!(reader.now(), Some(chunk(1, &half)));
        assert_eq!(reader.now(), None);
    }
}
