//! When the write-ahead log is moved into the database, and when it is emptied.
//!
//! SQLite would do the first by itself after a commit, but then nobody hears of its errors.

use std::time::Duration;

use rusqlite::Connection;

use crate::job::Timestamp;
use crate::store::sqlite::connection::open::BUSY_TIMEOUT;

/// Pages that the log grows by before they are moved into the database: 16 MiB.
const MOVED_PAGES: i64 = 4_000;
/// Pages of a log that readers kept from starting over, at which they are waited for: 64 MiB.
const PAGES_MAX: i64 = 16_000;
/// How long emptying the log may wait for readers, and keep the writer waiting.
const READERS_TIMEOUT: Duration = Duration::from_millis(200);
/// How long what was deleted may stay in the log of a writer that is never idle.
const DELETED_KEPT: Duration = Duration::from_secs(30);

/// What is known of the log between batches.
#[derive(Default)]
pub(crate) struct Log {
    /// How long it was when it was last moved.
    moved_at: i64,
    /// Since when it holds what was deleted.
    deleted_at: Option<Timestamp>,
}

/// What SQLite says of the log.
struct State {
    busy: bool,
    /// Negative if there is none, as in memory.
    pages: i64,
}

impl Log {
    /// The log of a database that was just opened. A process that was killed may have left in it what it
    /// had deleted.
    pub(crate) fn found(now: Timestamp) -> Self {
        Self { moved_at: 0, deleted_at: Some(now) }
    }

    /// Notes that the last batch deleted something.
    pub(crate) fn note_deleted(&mut self, now: Timestamp) {
        self.deleted_at.get_or_insert(now);
    }

    /// Does what is due after a batch.
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
            // It started over.
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

    /// Moves all of the log and cuts it to nothing; tried again later if a reader is in the way.
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

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<State> {
    let mut statement = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row([], |row| Ok(State { busy: row.get(0)?, pages: row.get(1)? }))
}
