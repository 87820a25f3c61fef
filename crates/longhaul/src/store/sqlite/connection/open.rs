//! Opening of a database file: lock, checks, migrations and connection settings.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::job::Timestamp;
use crate::store::sqlite::connection::log_mark;
use crate::store::sqlite::connection::readers::ReaderConnections;
use crate::store::sqlite::schema::migrate::migrate;
use crate::store::sqlite::sql;

/// Minimum SQLite version. Older ones can corrupt a database when its write-ahead log restarts under load.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// Maximum size of a file that is checked before it is used. Checking a larger one would delay the start.
const CHECKED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum size of a file that is checked after a crash, when a few seconds are worth it.
const CHECKED_AFTER_CRASH_BYTES_MAX: u64 = 8 * CHECKED_BYTES_MAX;
/// Size to which the write-ahead log is truncated after a long read has let it grow.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;
/// Connections for short reads, beside the one for reads of single jobs. Two, because some count many rows.
const LOOKUP_READERS: usize = 2;
/// Connections for lists. As many as the engine runs at a time.
const LIST_READERS: usize = 2;
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Greater than the number of statements that begin and end transactions and run checkpoints. All others are in
/// `Statements`.
const STATEMENTS_CACHED: usize = 16;

/// An error while opening a database, by the operator's remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the database open. Stop it, or configure another file.
    #[error(
        "another process has the database open (it holds {}); stop it, or use another file; \
         several processes need Postgres", lock.display()
    )]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// The file is on a network file system. Move it to a local disk.
    #[error(
        "{} is on a network file system ({name}), where locks and syncs cannot be trusted; \
         move it to a local disk, or use Postgres", path.display()
    )]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// Name of the file system.
        name: &'static str,
    },
    /// The file is damaged or not a database. Restore a backup.
    #[error(
        "{} is damaged or not a database ({reason}); keep a copy of it and of its -wal file, then \
         restore a backup, or move it away to start with an empty one", path.display()
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// The message of SQLite.
        reason: String,
    },
    /// The file was copied while a process had it open, or it is a backup. Restore it.
    #[error(
        "{0} is a backup, or a copy of a database in use without its newest writes, which are in its \
         -wal file; copy both files while no server runs, or use `longhaul backup`, and bring a backup \
         back with `longhaul restore --from`; if another tool has made a complete copy, run `longhaul \
         restore --fence --database sqlite:{0}`", path.display()
    )]
    IncompleteCopy {
        /// The database.
        path: PathBuf,
    },
    /// A newer version of this program has migrated the schema. Run the newer version.
    #[error(
        "the database was written by a newer version (its schema is {found}, this program knows up \
         to {known}); run the newer version, or restore the backup from before the upgrade"
    )]
    TooNew {
        /// The schema's version.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// The linked SQLite is too old. Build with a newer one.
    #[error(
        "SQLite {found} can corrupt write-ahead logs; build with 3.51.3 or newer, for example with \
         the bundled one"
    )]
    SqliteTooOld {
        /// The version that was linked.
        found: &'static str,
    },
    /// The file cannot be accessed. Check the file, its directory and their permissions.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// SQLite failed for another reason.
    #[error("cannot open the database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// A database that is open in this process only.
pub(crate) struct OpenFile {
    pub(crate) writer: Connection,
    pub(crate) readers: ReaderConnections,
    /// Held until it is dropped.
    pub(crate) lock: File,
    pub(crate) marker: Marker,
}

/// A file beside the database that exists while the database is open, and after a crash.
pub(crate) struct Marker(PathBuf);

impl Marker {
    /// Creates the marker. Returns whether a crashed process left one behind.
    fn set(path: &Path) -> Result<(Self, bool), OpenError> {
        let marker = beside(path, ".open");
        let set = || {
            let left_behind = marker.try_exists()?;
            if !left_behind {
                open_private(&marker)?.sync_all()?;
                // Windows cannot sync directories.
                #[cfg(unix)]
                if let Some(folder) = marker.parent() {
                    File::open(folder)?.sync_all()?;
                }
            }
            Ok(left_behind)
        };
        match set() {
            Ok(left_behind) => Ok((Self(marker), left_behind)),
            Err(source) => Err(OpenError::Io { path: marker, source }),
        }
    }

    /// Removes the marker, after the database was closed cleanly.
    pub(crate) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "the database will be checked at its next start");
        }
    }
}

/// Opens or creates the file.
pub(crate) fn open(path: &Path, now: Timestamp) -> Result<OpenFile, OpenError> {
    check_sqlite()?;
    let path = &made(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let lock = lock(path)?;
    refuse_network_file_system(path)?;
    refuse_incomplete_copy(path)?;
    let (marker, left_behind) = Marker::set(path)?;
    let connect = || -> Result<_, OpenError> {
        let writer = open_writer(path, left_behind, "WAL", now)?;
        if !log_mark::set_in_file(&writer)? {
            tracing::warn!(
                "another process reads the database: a copy of it may not be recognized"
            );
        }
        let readers = |count| (0..count).map(|_| open_reader(path)).collect::<Result<_, _>>();
        let (lookups, lists) = (readers(LOOKUP_READERS)?, readers(LIST_READERS)?);
        Ok((writer, ReaderConnections { jobs: open_reader(path)?, lookups, lists }))
    };
    let (writer, readers) = connect().map_err(|error| error.about(path))?;
    Ok(OpenFile { writer, readers, lock, marker })
}

/// Opens a file that was restored from a backup, without a write-ahead log, so that an interrupted change leaves none.
pub(crate) fn open_restored(path: &Path, now: Timestamp) -> Result<(Connection, File), OpenError> {
    check_sqlite()?;
    let path = &fs::canonicalize(path)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let lock = lock(path)?;
    refuse_network_file_system(path)?;
    let conn = open_writer(path, true, "DELETE", now).map_err(|error| error.about(path))?;
    Ok((conn, lock))
}

/// Rejects a marked file without its log. After a crash there is also the marker beside the file.
fn refuse_incomplete_copy(path: &Path) -> Result<(), OpenError> {
    let is_incomplete = || -> io::Result<bool> {
        Ok(log_mark::is_set(path)? && !has_log(path) && !beside(path, ".open").try_exists()?)
    };
    match is_incomplete() {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::IncompleteCopy { path: path.to_owned() }),
        Err(source) => Err(OpenError::Io { path: path.to_owned(), source }),
    }
}

fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0)
}

fn open_writer(
    path: &Path,
    left_behind: bool,
    journal_mode: &str,
    now: Timestamp,
) -> Result<Connection, OpenError> {
    // A log without a marker was copied here together with the database.
    let crashed = left_behind || has_log(path);
    let mut conn = Connection::open(path)?;
    set_up(&conn)?;
    conn.pragma_update(None, "journal_mode", journal_mode)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    // The writer runs checkpoints itself, so that it sees their errors.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    let checked_max = if crashed { CHECKED_AFTER_CRASH_BYTES_MAX } else { CHECKED_BYTES_MAX };
    if fs::metadata(path).is_ok_and(|file| file.len() <= checked_max) {
        quick_check(path, &conn)?;
    }
    migrate(&mut conn)?;
    conn.execute(sql::EXPIRE_LEASES, [now.as_millis()])?;
    // Nor can any replica in the list be alive.
    conn.execute(sql::FORGET_REPLICAS, [i64::MAX])?;
    Ok(conn)
}

fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    // Opened read-write, because a reader takes part in the locks of the log; `query_only` prevents
    // writes.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    set_up(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// Opens a database in memory, which is lost with its connection.
pub(crate) fn open_memory() -> Result<Connection, OpenError> {
    check_sqlite()?;
    let mut conn = Connection::open_in_memory()?;
    set_up(&conn)?;
    migrate(&mut conn)?;
    Ok(conn)
}

fn check_sqlite() -> Result<(), OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::SqliteTooOld { found: rusqlite::version() });
    }
    Ok(())
}

/// Returns the canonical path of the file, because its lock and its log are beside that path.
///
/// Creates a missing file with private permissions, because SQLite would make it readable for all; the log
/// inherits them. An existing file is not opened, because closing it again would release the locks that
/// SQLite has on it.
fn made(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            open_private(path)?;
            fs::canonicalize(path)
        }
        found => found,
    }
}

/// Locks the database. The lock file is never deleted, because a successor may already have opened it.
fn lock(path: &Path) -> Result<File, OpenError> {
    let lock = beside(path, ".lock");
    let io = |source| OpenError::Io { path: lock.clone(), source };
    let file = open_private(&lock).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { lock }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Opens a file, or creates one that only its owner can access. An existing file keeps its permissions.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(target_os = "linux")]
fn refuse_network_file_system(path: &Path) -> Result<(), OpenError> {
    // Magic numbers from the kernel's magic.h.
    const NETWORK: [(u32, &str); 4] =
        [(0x6969, "NFS"), (0x517B, "SMB"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2")];
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let found = rustix::fs::statfs(folder)
        .map_err(|errno| OpenError::Io { path: folder.to_owned(), source: errno.into() })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the numbers have 32 bits; the field's width and sign depend on the machine"
    )]
    let magic = found.f_type as u32;
    match NETWORK.iter().find(|(network, _)| *network == magic) {
        Some((_, name)) => Err(OpenError::NetworkFileSystem { path: path.to_owned(), name }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network_file_system(_path: &Path) -> Result<(), OpenError> {
    Ok(())
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    // Otherwise a statement with a parameter as its LIMIT is prepared again whenever the value is bound.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // Overwrites deleted content, also in pages that become free.
    conn.pragma_update(None, "secure_delete", "ON")?;
    conn.pragma_update(None, "cache_size", -16_000)
}

/// Returns the version of the linked SQLite, or an error if it is too old.
pub fn version() -> Result<&'static str, OpenError> {
    check_sqlite()?;
    Ok(rusqlite::version())
}

/// Migrates the schema of a database that no process has open, as opening it does.
///
/// Returns the versions before and after.
pub fn migrate_file(path: impl AsRef<Path>) -> Result<(u32, u32), OpenError> {
    let path = path.as_ref();
    let canonical =
        fs::canonicalize(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let look = || -> Result<u32, OpenError> {
        let conn = Connection::open_with_flags(&canonical, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
    };
    let from = look().map_err(|error| error.about(path))?;
    // Closes like a server, which empties the log.
    drop(crate::store::sqlite::SqliteStore::open(&canonical, crate::clock::Clock::system())?);
    Ok((from, crate::store::sqlite::schema::migrate::KNOWN))
}

/// Checks a database that no process has open, without changing it.
///
/// Takes long for a large file.
pub fn inspect(path: impl AsRef<Path>) -> Result<(), OpenError> {
    let path = path.as_ref();
    check_sqlite()?;
    let path = &fs::canonicalize(path)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let _lock = lock(path)?;
    refuse_network_file_system(path)?;
    refuse_incomplete_copy(path)?;
    let look = || -> Result<(), OpenError> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        quick_check(path, &conn)
    };
    look().map_err(|error| error.about(path))
}

pub(crate) fn quick_check(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    let reason: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if reason == "ok" {
        return Ok(());
    }
    Err(OpenError::Corrupt { path: path.to_owned(), reason })
}

impl OpenError {
    /// Maps the SQLite errors that the operator can act on.
    pub(crate) fn about(self, path: &Path) -> Self {
        let Self::Sqlite(error) = self else { return self };
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Self::Corrupt { path, reason: error.to_string() }
            }
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                Self::Io { path, source: io::Error::other(error) }
            }
            Some(_) | None => Self::Sqlite(error),
        }
    }
}
