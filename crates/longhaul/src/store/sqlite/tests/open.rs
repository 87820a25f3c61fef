//! Opening files.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::{accept, claim, clock, new_job};
use crate::job::{Status, TenantId, Timestamp, Usage};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::schema::migrate::{KNOWN, MIGRATIONS};
use crate::store::sqlite::{OpenError, SqliteStore};
use crate::store::{Heartbeat, StoreError};
use crate::store::{JobStore as _, MaintenanceStore as _, ReplicaStore as _};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open_error(path: &std::path::Path) -> OpenError {
    match SqliteStore::open(path, clock()) {
        Ok(_) => panic!("should be refused"),
        Err(error) => error,
    }
}

#[test]
fn second_open_is_refused_until_the_first_is_closed() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let store = SqliteStore::open(&path, clock()).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("jobs.db.lock"), "{error}");
    drop(store);
    SqliteStore::open(&path, clock()).unwrap();
}

/// Regression: the lock was beside the link and the log beside the file, so two processes could write to
/// it.
#[cfg(unix)]
#[test]
fn link_to_an_open_database_is_refused() {
    let folder = folder();
    let (path, link) = (folder.path().join("jobs.db"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let store = SqliteStore::open(&link, clock()).unwrap();
    for other in [&path, &link] {
        let error = open_error(other);
        assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    }
    drop(store);
    SqliteStore::open(&path, clock()).unwrap();
}

#[test]
fn file_that_is_no_database_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let garbage = "this is not a database ".repeat(500);
    fs::write(&path, &garbage).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), garbage);
}

#[test]
fn schema_of_a_newer_version_is_refused() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    drop(SqliteStore::open(&path, clock()).unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 1_000).unwrap();
    drop(conn);
    let error = open_error(&path);
    assert!(matches!(error, OpenError::TooNew { found: 1_000, .. }), "{error}");
}

#[test]
fn folder_that_is_not_there_is_named() {
    let error = open_error(std::path::Path::new("/no/such/folder/jobs.db"));
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/folder/jobs.db"), "{error}");
}

#[tokio::test]
async fn whatever_ran_at_the_last_close_is_due_at_the_next_sweep() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let store = SqliteStore::open(&path, clock()).unwrap();
    let id = accept(&store, new_job()).await;
    assert_eq!(claim(&store, 1).await.leases.len(), 1);
    assert!(store.rescue(10).await.unwrap().is_empty());
    drop(store);

    let store = SqliteStore::open(&path, clock()).unwrap();
    let swept = store.rescue(10).await.unwrap();
    assert_eq!(swept.len(), 1);
    assert_eq!((swept[0].id, swept[0].status, swept[0].attempt), (id, Status::Pending, 1));
    let again = claim(&store, 1).await.leases.remove(0);
    // The rescue raised the epoch once, the claim again.
    assert_eq!((again.job.attempt, again.epoch), (2, 3));
}

#[tokio::test]
async fn clean_close_empties_the_log_and_keeps_the_jobs() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let store = SqliteStore::open(&path, clock()).unwrap();
    let id = accept(&store, new_job()).await;
    assert!(path.with_extension("db-wal").exists());
    drop(store);
    assert!(!path.with_extension("db-wal").exists());
    let store = SqliteStore::open(&path, clock()).unwrap();
    assert_eq!(store.job(&TenantId::default(), id).await.unwrap().job.id, id);
}

/// Regression: a crash was detected only by a log that was left behind, and a crash need not leave one.
#[test]
fn database_that_was_not_closed_well_is_checked() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    drop(SqliteStore::open(&path, clock()).unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    let root = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'steps'";
    let page: u16 = conn.query_row(root, [], |row| row.get(0)).unwrap();
    drop(conn);
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::from(page) * 4_096..][..4_096].fill(0);
    fs::write(&path, bytes).unwrap();
    fs::write(path.with_extension("db.open"), "").unwrap();
    for _ in 0..2 {
        let error = open_error(&path);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    }
}

#[tokio::test]
async fn marker_of_an_open_database_goes_with_a_clean_close_only() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let marker = path.with_extension("db.open");
    let store = SqliteStore::open(&path, clock()).unwrap();
    assert!(marker.exists());
    drop(store);
    assert!(!marker.exists());
    let store = SqliteStore::open(&path, clock()).unwrap();
    let failure = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    let failed = store.writer.call(move |_| {
        Err::<(), _>(SqliteError::Database(rusqlite::Error::SqliteFailure(failure, None)))
    });
    assert!(matches!(failed.await, Err(StoreError::Broken(_))));
    drop(store);
    assert!(marker.exists());
}

/// Regression: a killed process could not deregister, and the next one with its name was rejected.
#[tokio::test]
async fn replicas_of_earlier_processes_are_forgotten_at_open() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let beat = |run| Heartbeat {
        replica: "a".to_owned(),
        run,
        role: "all".to_owned(),
        version: String::new(),
        host: String::new(),
        pid: 1,
        process: String::new(),
        kinds: Vec::new(),
        running: 0,
        concurrency: 0,
        silent_after: Duration::from_hours(1),
    };
    let store = SqliteStore::open(&path, clock()).unwrap();
    store.heartbeat(&beat(1)).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&path, clock()).unwrap();
    assert!(store.replicas().await.unwrap().is_empty());
    store.heartbeat(&beat(2)).await.unwrap();
}

#[tokio::test]
async fn database_without_a_schema_is_migrated_and_keeps_its_jobs_afterwards() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    drop(rusqlite::Connection::open(&path).unwrap());
    let store = SqliteStore::open(&path, clock()).unwrap();
    let id = accept(&store, new_job()).await;
    drop(store);
    let conn = rusqlite::Connection::open(&path).unwrap();
    let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, KNOWN);
    drop(conn);
    let store = SqliteStore::open(&path, clock()).unwrap();
    assert!(store.replicas().await.unwrap().is_empty());
    assert_eq!(claim(&store, 1).await.leases[0].job.id, id);
}

/// A lease as a killed process leaves it. It expired when it began, so that no run time is metered.
#[tokio::test]
async fn running_job_of_a_killed_process_is_metered_when_it_is_rescued() {
    let folder = folder();
    let path = folder.path().join("jobs.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    for (_, migration) in MIGRATIONS {
        conn.execute_batch(migration).unwrap();
    }
    conn.pragma_update(None, "user_version", KNOWN).unwrap();
    let left_behind = "
        INSERT INTO jobs (
            tenant_id, id, kind, queue, priority, attempt, max_attempts, attempt_base, epoch, version,
            labels, fingerprint, created_at, run_at, retention_completed_ms, retention_failed_ms,
            has_payload, payload_bytes, input
        ) VALUES (
            'default', '01K9XG83KB000FET3YVZ75BXD7', 'demo', 'default', 0, 0, 1, 0, 0, 1,
            '{}', zeroblob(32), 1, 1, 1000, 1000, 1, 4711, 'null'
        );
        INSERT INTO leases (
            seq, epoch, version, attempt, replica, claimed_at, lease_until, started_at, tenant_id, id, queue
        ) VALUES (1, 1, 2, 1, 'r1', 5, 5, 1, 'default', '01K9XG83KB000FET3YVZ75BXD7', 'default')";
    conn.execute_batch(left_behind).unwrap();
    drop(conn);
    let store = SqliteStore::open(&path, clock()).unwrap();
    assert_eq!(store.rescue(10).await.unwrap().len(), 1);
    let all = (Timestamp::from_millis(0), Timestamp::MAX);
    let rows = store.usage(&TenantId::default(), all.0, all.1).await.unwrap();
    let used: Vec<Usage> = rows.into_iter().map(|row| row.usage).collect();
    assert_eq!(used, [Usage { jobs: 1, payload_bytes: 4_711, ..Usage::default() }]);
}
