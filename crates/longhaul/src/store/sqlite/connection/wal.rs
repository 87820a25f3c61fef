//! Checkpoints of the write-ahead log, and its truncation.
//!
//! SQLite could run checkpoints by itself after a commit, but would not report their errors.

use std::time::Duration;

use rusqlite::Connection;

use crate::job::Timestamp;
use crate::store::sqlite::connection::open::BUSY_TIMEOUT;

/// Growth of the log, in pages, after which a checkpoint runs: 16 MiB.
const MOVED_PAGES: i64 = 4_000;
/// Pages of a log that readers kept from restarting, at which a checkpoint waits for them: 64 MiB.
const PAGES_MAX: i64 = 16_000;
/// Maximum time for which a truncation waits for readers, and delays the writer.
const READERS_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum time for which deleted content stays in the log of a writer that is never idle.
const DELETED_KEPT: Duration = Duration::from_secs(30);

/// State of the log between batches.
#[derive(Default)]
pub(crate) struct WalState {
    /// Number of pages at the last checkpoint.
    moved_at: i64,
    /// Time since which the log contains deleted content.
    deleted_at: Option<Timestamp>,
}

/// Result of a checkpoint.
struct CheckpointResult {
    busy: bool,
    /// Negative if there is no log, as in memory.
    pages: i64,
}

impl WalState {
    /// Returns the state of a database that was just opened.
    ///
    /// A killed process may have left deleted content in the log.
    pub(crate) fn found(now: Timestamp) -> Self {
        Self { moved_at: 0, deleted_at: Some(now) }
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
    ) -> rusqlite::Result<()> {
        let must_scrub =
            self.deleted_at.is_some_and(|since| idle || now >= since.after(DELETED_KEPT));
        if must_scrub {
            return self.empty(conn);
        }
        let pages = checkpoint(conn, "NOOP")?.pages;
        if pages < self.moved_at {
            // The log has restarted.
            self.moved_at = 0;
        }
        if pages - self.moved_at < MOVED_PAGES {
            return Ok(());
        }
        self.moved_at = pages;
        if pages >= PAGES_MAX {
            return self.empty(conn);
        }
        checkpoint(conn, "PASSIVE").map(drop)
    }

    /// Moves the whole log into the database and truncates it. Retried later if a reader blocks it.
    pub(crate) fn empty(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        conn.busy_timeout(READERS_TIMEOUT)?;
        let emptied = checkpoint(conn, "TRUNCATE");
        conn.busy_timeout(BUSY_TIMEOUT)?;
        if !emptied?.busy {
            *self = Self::default();
        }
        Ok(())
    }
}

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<CheckpointResult> {
    let mut statement = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row([], |row| Ok(CheckpointResult { busy: row.get(0)?, pages: row.get(1)? }))
}
