//! Mark in the header of a database file that is incomplete without its write-ahead log.
//!
//! A copy of only the file of a running process looks like a complete database, but lacks everything that is still in
//! the log. So a process marks the file before it acknowledges a write, and removes the mark when it closes the file and
//! has moved the whole log into it.
//!
//! The mark is SQLite's application id: a part of the header, which can be read before SQLite opens the file, and which
//! is written and synced like any page. Tools that copy a database through SQLite copy the mark, too.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rusqlite::Connection;

/// The application id of a marked file: `LHWA`.
const MARK: [u8; 4] = *b"LHWA";
const UNMARKED: i32 = 0;
/// Size of the header up to the end of the application id.
const HEADER_BYTES: usize = 72;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Returns whether the file has the mark. Only for a file that this process has not open, because closing it again would
/// release the locks that SQLite has on it.
pub(crate) fn is_set(path: &Path) -> io::Result<bool> {
    let mut header = [0; HEADER_BYTES];
    match File::open(path)?.read_exact(&mut header) {
        Ok(()) => Ok(header.starts_with(MAGIC) && header.ends_with(&MARK)),
        // A new file is empty.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Marks the file. Returns false if the mark is only in the log, because another process reads the file; then it reaches
/// the file with the next checkpoint, before any later write.
pub(crate) fn set_in_file(conn: &Connection) -> rusqlite::Result<bool> {
    set(conn)?;
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (pages, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(pages == moved)
    })
}

/// Sets the mark with the current or a new transaction.
pub(crate) fn set(conn: &Connection) -> rusqlite::Result<()> {
    write(conn, i32::from_be_bytes(MARK))
}

/// Removes the mark with the current or a new transaction.
pub(crate) fn clear(conn: &Connection) -> rusqlite::Result<()> {
    write(conn, UNMARKED)
}

fn write(conn: &Connection, application_id: i32) -> rusqlite::Result<()> {
    conn.pragma_update(None, "application_id", application_id)
}
