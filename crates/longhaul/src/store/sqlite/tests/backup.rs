//! Copies of a database file: those without its log are recognized, and snapshots are complete.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{accept, claim, clock, new_job};
use crate::job::{JobId, TenantId};
use crate::store::JobStore as _;
use crate::store::sqlite::connection::log_mark;
use crate::store::sqlite::{OpenError, Snapshot, SqliteStore, fence};

/// A directory with a database.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("jobs.db")
    }

    fn open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(self.path(), clock())
    }

    /// Copies files of the database into a new directory.
    fn copy(&self, suffixes: &[&str]) -> Self {
        let copy = Self::new();
        for suffix in suffixes {
            fs::copy(beside(&self.path(), suffix), beside(&copy.path(), suffix)).unwrap();
        }
        copy
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    format!("{}{suffix}", path.display()).into()
}

async fn has(store: &SqliteStore, id: JobId) -> bool {
    store.job(&TenantId::default(), id).await.is_ok()
}

/// Regression: such a copy started as an empty store without a word.
#[tokio::test]
async fn copy_of_an_open_database_without_its_log_is_rejected() {
    let original = Folder::new();
    let store = original.open().unwrap();
    let id = accept(&store, new_job()).await;
    let copy = original.copy(&[""]);
    for _ in 0..2 {
        let error = copy.open().err().unwrap();
        assert!(matches!(error, OpenError::IncompleteCopy { .. }), "{error}");
        assert!(error.to_string().contains("longhaul backup"), "{error}");
    }
    // A log that was emptied after the database was copied.
    fs::write(beside(&copy.path(), "-wal"), "").unwrap();
    assert!(matches!(copy.open(), Err(OpenError::IncompleteCopy { .. })));
    let with_log = original.copy(&["", "-wal"]);
    assert!(has(&with_log.open().unwrap(), id).await);
    drop(store);
    let closed = original.copy(&[""]);
    assert!(has(&closed.open().unwrap(), id).await, "a closed database needs no log");
}

/// A crash after a truncation leaves an empty log, and a SQLite shell that reads the database afterwards deletes it.
#[tokio::test]
async fn crashed_database_opens_without_a_log() {
    let original = Folder::new();
    let store = original.open().unwrap();
    let id = accept(&store, new_job()).await;
    let crashed = original.copy(&["", "-wal", ".open"]);
    let shell = rusqlite::Connection::open(crashed.path()).unwrap();
    let jobs: i64 = shell.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).unwrap();
    assert_eq!(jobs, 1);
    drop(shell);
    assert!(!beside(&crashed.path(), "-wal").exists());
    assert!(log_mark::is_set(&crashed.path()).unwrap());
    let with_empty_log = crashed.copy(&["", ".open"]);
    fs::write(beside(&with_empty_log.path(), "-wal"), "").unwrap();
    for folder in [crashed, with_empty_log] {
        assert!(has(&folder.open().unwrap(), id).await);
    }
}

/// The mark may go only with the log: a copy of the file alone would look complete.
#[tokio::test]
async fn database_that_another_process_reads_is_closed_with_its_mark_and_log() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let snapshot = Snapshot::open(folder.path()).unwrap();
    let id = accept(&store, new_job()).await;
    drop(store);
    drop(snapshot);
    assert!(beside(&folder.path(), "-wal").metadata().unwrap().len() > 0);
    assert!(beside(&folder.path(), ".open").exists());
    assert!(matches!(folder.copy(&[""]).open(), Err(OpenError::IncompleteCopy { .. })));
    let store = folder.open().unwrap();
    assert!(has(&store, id).await);
    drop(store);
    assert!(!beside(&folder.path(), ".open").exists());
    assert!(!log_mark::is_set(&folder.path()).unwrap());
}

#[tokio::test]
async fn snapshot_contains_what_was_acknowledged_before_it_and_nothing_later() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let mut before = Vec::new();
    for _ in 0..100 {
        before.push(accept(&store, new_job()).await);
    }
    claim(&store, 10).await;
    let snapshot = Snapshot::open(folder.path()).unwrap();
    let after = accept(&store, new_job()).await;
    let copy = Folder::new();
    let mut steps = 0;
    snapshot.copy_to(&copy.path(), |_| steps += 1).unwrap();
    drop(snapshot);
    assert!(steps > 0);
    assert!(has(&store, after).await, "the store goes on");
    assert!(!beside(&copy.path(), "-wal").exists(), "one file");
    let error = copy.open().err().unwrap();
    assert!(matches!(error, OpenError::IncompleteCopy { .. }), "not before it is fenced: {error}");
    assert_eq!(fence(copy.path(), &clock()).unwrap(), 10);
    let restored = copy.open().unwrap();
    for id in before {
        assert!(has(&restored, id).await);
    }
    assert!(!has(&restored, after).await);
}

#[tokio::test]
async fn snapshot_of_a_closed_database_leaves_it_as_it_was() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let id = accept(&store, new_job()).await;
    drop(store);
    let before = fs::read(folder.path()).unwrap();
    let copy = Folder::new();
    Snapshot::open(folder.path()).unwrap().copy_to(&copy.path(), |_| {}).unwrap();
    assert_eq!(fs::read(folder.path()).unwrap(), before);
    assert!(has(&folder.open().unwrap(), id).await);
    fence(copy.path(), &clock()).unwrap();
    assert!(has(&copy.open().unwrap(), id).await);
}
