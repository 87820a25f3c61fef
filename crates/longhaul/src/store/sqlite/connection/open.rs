//! Opening a database file: who may, in which state it must be, and how connections are set up.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::job::Timestamp;
use crate::store::sqlite::schema::migrate::migrate;
use crate::store::sqlite::sql;

/// Older ones can corrupt a database when its write-ahead log starts over under load.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// A file of up to this size is checked before it is used; a larger one would make the start slow.
const CHECKED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The same for a file that was not closed well, where a few seconds are worth it.
const CHECKED_AFTER_CRASH_BYTES_MAX: u64 = 8 * CHECKED_BYTES_MAX;
/// A log that grew beyond this, behind a long read, is cut back to it.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;
const READERS: usize = 2;
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than there are statements.
const STATEMENTS_CACHED: usize = 128;

/// Why a database cannot be opened, by what the operator can do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Stop the other process, or give this one a database of its own.
    #[error(
        "another process has the database open (it holds {}); stop it, or use another file; \
         several processes need Postgres", lock.display()
    )]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// Move the file to a local disk.
    #[error(
        "{} is on a network file system ({name}), where locks and syncs cannot be trusted; \
         move it to a local disk, or use Postgres", path.display()
    )]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// Which one.
        name: &'static str,
    },
    /// Restore a backup.
    #[error(
        "{} is damaged or not a database ({reason}); keep a copy of it and of its -wal file, then \
         restore a backup, or move it away to start with an empty one", path.display()
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// Run the newer program again.
    #[error(
        "the database was written by a newer version (its schema is {found}, this program knows up \
         to {known}); run the newer version, or restore the backup from before the upgrade"
    )]
    TooNew {
        /// The schema's version.
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// Build with a newer SQLite.
    #[error(
        "SQLite {found} can corrupt write-ahead logs; build with 3.51.3 or newer, for example with \
         the bundled one"
    )]
    SqliteTooOld {
        /// The version that was linked.
        found: &'static str,
    },
    /// Look at the file, its folder and their permissions.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Look at what SQLite says.
    #[error("cannot open the database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// A database that this process alone has open.
pub(crate) struct Opened {
    pub(crate) writer: Connection,
    pub(crate) readers: Vec<Connection>,
    /// Locked until it is dropped.
    pub(crate) lock: File,
    pub(crate) marker: Marker,
}

/// A file beside the database, there while it is open and after it was not closed well.
pub(crate) struct Marker(PathBuf);

impl Marker {
    /// Sets the marker; also whether it was left behind.
    fn set(path: &Path) -> Result<(Self, bool), OpenError> {
        let marker = beside(path, ".open");
        let set = || {
            let left_behind = marker.try_exists()?;
            if !left_behind {
                open_private(&marker)?.sync_all()?;
                // Windows syncs no folders.
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

    /// For a database that was closed well.
    pub(crate) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "the database will be checked at its next start");
        }
    }
}

/// Opens or creates the file.
pub(crate) fn open(path: &Path, now: Timestamp) -> Result<Opened, OpenError> {
    check_sqlite()?;
    let path = &made(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let lock = lock(path)?;
    refuse_network_file_system(path)?;
    let (marker, left_behind) = Marker::set(path)?;
    let connect = || -> Result<_, OpenError> {
        let writer = open_writer(path, left_behind, now)?;
        let readers = (0..READERS).map(|_| open_reader(path)).collect::<Result<_, _>>()?;
        Ok((writer, readers))
    };
    let (writer, readers) = connect().map_err(|error| error.about(path))?;
    Ok(Opened { writer, readers, lock, marker })
}

fn open_writer(path: &Path, left_behind: bool, now: Timestamp) -> Result<Connection, OpenError> {
    // A log without a marker came here with a copy of the database.
    let crashed = left_behind || fs::metadata(beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    let mut conn = Connection::open(path)?;
    set_up(&conn)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    // The writer does it, and hears of its errors.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    let checked_max = if crashed { CHECKED_AFTER_CRASH_BYTES_MAX } else { CHECKED_BYTES_MAX };
    if fs::metadata(path).is_ok_and(|file| file.len() <= checked_max) {
        quick_check(path, &conn)?;
    }
    migrate(&mut conn)?;
    conn.execute(sql::EXPIRE_LEASES, [now.as_millis()])?;
    // Nor can anybody else be alive.
    conn.execute(sql::FORGET_REPLICAS, [i64::MAX])?;
    Ok(conn)
}

fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    // Read-write to SQLite, because a reader takes part in the log's locks; `query_only` to us.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    set_up(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// A database that is gone with its connection.
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

/// The one name of the file, whatever links lead to it: its lock and its log are beside that. A file
/// that is not there is made before SQLite makes it for all to read; the log gets its permissions.
/// One that is there is not opened: closing it again would end the locks that SQLite has on it.
fn made(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            open_private(path)?;
            fs::canonicalize(path)
        }
        found => found,
    }
}

/// The lock file stays when the lock goes: deleting it could take it from under a successor.
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

/// Opens a file, or makes one for its owner alone. One that is there keeps its permissions.
fn open_private(path: &Path) -> io::Result<File> {
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
    // From the kernel's magic.h.
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
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // Deleted content is overwritten, in pages that get free as well.
    conn.pragma_update(None, "secure_delete", "ON")?;
    conn.pragma_update(None, "cache_size", -16_000)
}

/// The version of SQLite that this program was built with, if it is good enough.
pub fn version() -> Result<&'static str, OpenError> {
    check_sqlite()?;
    Ok(rusqlite::version())
}

/// Brings the schema of a database that no process has open up to date, as opening it does: from which
/// version to which.
pub fn migrate_file(path: impl AsRef<Path>) -> Result<(u32, u32), OpenError> {
    let path = path.as_ref();
    let canonical =
        fs::canonicalize(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let look = || -> Result<u32, OpenError> {
        let conn = Connection::open_with_flags(&canonical, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
    };
    let from = look().map_err(|error| error.about(path))?;
    // Closed as a server closes it, which empties the log.
    drop(crate::store::sqlite::SqliteStore::open(&canonical, crate::clock::Clock::system())?);
    Ok((from, crate::store::sqlite::schema::migrate::KNOWN))
}

/// Looks through a database that no process has open, and changes nothing in it. Takes long if it
/// is large.
pub fn inspect(path: impl AsRef<Path>) -> Result<(), OpenError> {
    let path = path.as_ref();
    check_sqlite()?;
    let path = &fs::canonicalize(path)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let _lock = lock(path)?;
    refuse_network_file_system(path)?;
    let look = || -> Result<(), OpenError> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        quick_check(path, &conn)
    };
    look().map_err(|error| error.about(path))
}

fn quick_check(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    let reason: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if reason == "ok" {
        return Ok(());
    }
    Err(OpenError::Corrupt { path: path.to_owned(), reason })
}

impl OpenError {
    /// Tells what the operator can act on from the rest of what SQLite says.
    fn about(self, path: &Path) -> Self {
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
