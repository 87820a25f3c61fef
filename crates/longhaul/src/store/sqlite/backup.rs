//! Snapshots of a database, for backups while another process has it open.

use std::fs;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::store::sqlite::OpenError;
use crate::store::sqlite::connection::{log_mark, open};
use crate::store::sqlite::schema::migrate::{KNOWN, schema_version};
use crate::store::sqlite::sql;

/// Pages that are copied at a time, and their size in bytes.
const PAGES_PER_STEP: i32 = 256;
const STEP_BYTES: u64 = 1024 * 1024;

/// One state of a database: a read transaction, which lasts until it is dropped.
///
/// Reads like any other process, so it needs no lock, and the process that has the file open goes on writing. Its
/// write-ahead log grows meanwhile, because no checkpoint can empty a log that a snapshot needs.
pub struct Snapshot {
    conn: Connection,
}

impl Snapshot {
    /// Begins a read transaction.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let path = &fs::canonicalize(path)
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let begin = || -> Result<Self, OpenError> {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let conn = Connection::open_with_flags(path, flags)?;
            conn.busy_timeout(open::BUSY_TIMEOUT)?;
            // Otherwise the last process to close the file would delete its log, and this may be the last one.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            conn.execute_batch("BEGIN")?;
            // The first read begins the snapshot.
            let found = schema_version(&conn)?;
            if found > KNOWN {
                return Err(OpenError::TooNew { found, known: KNOWN });
            }
            Ok(Self { conn })
        };
        begin().map_err(|error| error.about(path))
    }

    /// Checks the structure of the database. Takes long for a large file.
    pub fn check(&self) -> Result<(), OpenError> {
        let path = Path::new(self.conn.path().unwrap_or_default());
        open::quick_check(path, &self.conn).map_err(|error| error.about(path))
    }

    /// Returns the identity of the file.
    pub fn origin(&self) -> Result<String, OpenError> {
        Ok(self.conn.query_row(sql::ORIGIN, [], |row| row.get(0))?)
    }

    /// Returns the paths of all blobs that can be read.
    pub fn blobs(&self) -> Result<Vec<String>, OpenError> {
        let mut statement = self.conn.prepare(sql::READABLE_BLOBS)?;
        let paths = statement.query_map([], |row| row.get(0))?;
        Ok(paths.collect::<Result<_, _>>()?)
    }

    /// Copies the database to a new file, which only its owner can access, and syncs it. Calls `before_step` with the
    /// number of bytes that are copied next.
    ///
    /// A store opens the copy only after [`fence`](super::fence).
    pub fn copy_to(&self, path: &Path, before_step: impl FnMut(u64)) -> Result<(), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let file = open::open_private(path).map_err(io)?;
        self.write_copy(path, before_step).map_err(|error| error.about(path))?;
        file.sync_all().map_err(io)
    }

    fn write_copy(&self, path: &Path, mut before_step: impl FnMut(u64)) -> Result<(), OpenError> {
        let mut copy = Connection::open(path)?;
        // Synced once, at the end.
        copy.pragma_update(None, "synchronous", "OFF")?;
        let backup = Backup::new(&self.conn, &mut copy)?;
        loop {
            before_step(STEP_BYTES);
            let step = backup.step(PAGES_PER_STEP)?;
            if step == StepResult::Done {
                break;
            }
            if step != StepResult::More {
                // Another process writes to the copy.
                let busy = ffi::Error::new(ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None).into());
            }
        }
        drop(backup);
        // One file, without a log.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        log_mark::set(&copy)?;
        Ok(copy.close().map_err(|(_, error)| error)?)
    }
}
