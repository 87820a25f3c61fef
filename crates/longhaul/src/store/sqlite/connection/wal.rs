//! Checkpoints of the write-ahead log, and its truncation.
//!
//! SQLite could run checkpoints by itself after a commit, but would not report their errors.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::job::Timestamp;
use crate::metrics;
use crate::store::sqlite::connection::open::BUSY_TIMEOUT;
use crate::store::sqlite::connection::readers::ReaderHandle;

/// Growth of the log, in pages, after which a checkpoint runs: 16 MiB.
const MOVED_PAGES: i64 = 4_000;
/// Pages of a log that readers kept from restarting, at which a checkpoint waits for them: 64 MiB.
const PAGES_MAX: i64 = 16_000;
/// Size of a page and its header in the log, in bytes.
const PAGE_BYTES: i64 = 4_096 + 24;
/// Maximum time for which a truncation waits for readers, and delays the writer.
const READERS_TIMEOUT: Duration = Duration::from_millis(200);
/// Wait after a truncation that a reader blocked. Doubles with each one in a row, up to [`RETRY_MAX`], because each delays
/// the writer.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Age of a read of this process at which a truncation interrupts it. As long as the statement timeout on Postgres.
const READ_MAX: Duration = Duration::from_secs(10);
/// Maximum time for which deleted content stays in the log of a writer that is never idle.
const DELETED_KEPT: Duration = Duration::from_secs(30);

/// State of the log between batches.
#[derive(Default)]
pub(crate) struct WalState {
    /// Connections of this process that read the database.
    readers: Vec<Arc<ReaderHandle>>,
    /// Number of pages at the last checkpoint.
    moved_at: i64,
    /// Time since which the log contains deleted content.
    deleted_at: Option<Timestamp>,
    /// Set after a truncation that a reader blocked, until one succeeds.
    backoff: Option<Backoff>,
}

/// Exponential backoff of truncations.
struct Backoff {
    wait: Duration,
    retry_at: Timestamp,
    /// Number of pages at the last warning.
    warned_at: i64,
}

/// Work that was done on the log after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogWork {
    None,
    Checkpoint,
    Truncation,
    /// A truncation waited for a reader in vain.
    BlockedTruncation,
}

/// Result of a checkpoint.
struct WalCheckpoint {
    busy: bool,
    /// Negative if there is no log, as in memory.
    pages: i64,
}

impl WalState {
    /// Returns the state of a database that was just opened.
    ///
    /// A killed process may have left deleted content in the log.
    pub(crate) fn found(now: Timestamp, readers: Vec<Arc<ReaderHandle>>) -> Self {
        Self { readers, deleted_at: Some(now), ..Self::default() }
    }

    /// Records that the last batch deleted rows.
    pub(crate) fn note_deleted(&mut self, now: Timestamp) {
        self.deleted_at.get_or_insert(now);
    }

    /// Runs a checkpoint or a truncation if one is due after a batch.
    pub(crate) fn tend(
        &mut self,
        conn: &Connection,
        now: Timestamp,
        idle: bool,
    ) -> rusqlite::Result<LogWork> {
        let may_truncate = self.backoff.as_ref().is_none_or(|backoff| now >= backoff.retry_at);
        let must_scrub =
            self.deleted_at.is_some_and(|since| idle || now >= since.after(DELETED_KEPT));
        if must_scrub && may_truncate {
            return self.truncate(conn, now);
        }
        let pages = checkpoint(conn, "NOOP")?.pages;
        metrics::sqlite_wal_bytes(bytes(pages));
        if pages < self.moved_at {
            // The log has restarted.
            self.moved_at = 0;
        }
        if pages - self.moved_at < MOVED_PAGES {
            return Ok(LogWork::None);
        }
        self.moved_at = pages;
        if pages >= PAGES_MAX && may_truncate {
            return self.truncate(conn, now);
        }
        checkpoint(conn, "PASSIVE")?;
        Ok(LogWork::Checkpoint)
    }

    /// Moves the whole log into the database and truncates it. Retried later if a reader blocks it.
    pub(crate) fn truncate(
        &mut self,
        conn: &Connection,
        now: Timestamp,
    ) -> rusqlite::Result<LogWork> {
        conn.busy_timeout(READERS_TIMEOUT)?;
        let result = checkpoint(conn, "TRUNCATE");
        conn.busy_timeout(BUSY_TIMEOUT)?;
        let WalCheckpoint { busy, pages } = result?;
        metrics::sqlite_wal_bytes(bytes(pages));
        if busy {
            self.back_off(now, pages);
            return Ok(LogWork::BlockedTruncation);
        }
        *self = Self { readers: std::mem::take(&mut self.readers), ..Self::default() };
        Ok(LogWork::Truncation)
    }

    /// Interrupts long reads of this process, so that a later truncation succeeds. Readers of other processes cannot be
    /// interrupted: if they block truncations for half a minute, and whenever the log has doubled since, logs a warning.
    fn back_off(&mut self, now: Timestamp, pages: i64) {
        for reader in &self.readers {
            reader.interrupt_if_older_than(READ_MAX, now);
        }
        let former = self.backoff.as_ref();
        let wait = former.map_or(RETRY_MIN, |former| RETRY_MAX.min(former.wait * 2));
        let mut warned_at = former.map_or(0, |former| former.warned_at);
        if wait == RETRY_MAX && pages >= warned_at * 2 {
            warned_at = pages;
            tracing::warn!(
                wal.bytes = bytes(pages),
                "a long read of another process, for example a backup or a SQLite shell, keeps the write-ahead log from \
                 being truncated; the log grows and contains deleted data until that read ends"
            );
        }
        self.backoff = Some(Backoff { wait, retry_at: now.after(wait), warned_at });
    }
}

/// Returns the size of a log, in bytes.
fn bytes(pages: i64) -> i64 {
    pages.max(0).saturating_mul(PAGE_BYTES)
}

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<WalCheckpoint> {
    let mut statement = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row([], |row| Ok(WalCheckpoint { busy: row.get(0)?, pages: row.get(1)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(path: &std::path::Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        conn
    }

    /// Regression: every batch tried to truncate the log and waited for the reader in vain, so that a commit took 213 ms
    /// instead of 7 ms.
    #[test]
    fn truncations_that_a_reader_blocks_back_off_and_succeed_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, reader) =
            (connect(&folder.path().join("jobs.db")), connect(&folder.path().join("jobs.db")));
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let start = Timestamp::from_millis(1_763_000_000_000);
        let mut log = WalState::found(start, Vec::new());
        let mut blocked_at = Vec::new();
        // A batch every 100 ms for two minutes.
        for batch in 0..1_200 {
            conn.execute("INSERT INTO t VALUES (2)", []).unwrap();
            let now = start.after(Duration::from_millis(100) * batch);
            log.note_deleted(now);
            match log.tend(&conn, now, batch % 2 == 0).unwrap() {
                LogWork::BlockedTruncation => blocked_at.push(now.since(start).as_secs()),
                work @ (LogWork::None | LogWork::Checkpoint | LogWork::Truncation) => {
                    assert_eq!(work, LogWork::None);
                }
            }
        }
        assert_eq!(blocked_at, [0, 1, 3, 7, 15, 31, 61, 91]);
        reader.execute_batch("COMMIT").unwrap();
        let later = start.after(Duration::from_secs(121));
        assert_eq!(log.tend(&conn, later, true).unwrap(), LogWork::Truncation);
        assert_eq!(std::fs::metadata(folder.path().join("jobs.db-wal")).unwrap().len(), 0);
        // The next one does not wait.
        conn.execute("DELETE FROM t", []).unwrap();
        log.note_deleted(later);
        assert_eq!(log.tend(&conn, later, true).unwrap(), LogWork::Truncation);
    }

    #[test]
    fn long_log_is_truncated_with_backoff_too() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, reader) =
            (connect(&folder.path().join("jobs.db")), connect(&folder.path().join("jobs.db")));
        conn.execute_batch("CREATE TABLE t (x)").unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let now = Timestamp::from_millis(1_763_000_000_000);
        let mut log = WalState::default();
        let grow = || conn.execute("INSERT INTO t VALUES (zeroblob(17000000))", []).unwrap();
        for work in [
            LogWork::Checkpoint,
            LogWork::Checkpoint,
            LogWork::Checkpoint,
            // The first one over 64 MiB.
            LogWork::BlockedTruncation,
            LogWork::Checkpoint,
            LogWork::Checkpoint,
        ] {
            grow();
            assert_eq!(log.tend(&conn, now, true).unwrap(), work);
        }
        reader.execute_batch("COMMIT").unwrap();
        grow();
        assert_eq!(log.tend(&conn, now.after(RETRY_MIN), true).unwrap(), LogWork::Truncation);
    }
}
