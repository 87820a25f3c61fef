//! The write-ahead log: checkpoints, and removal of deleted content.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{accept, claim, clock, new_job};
use crate::job::{JobId, Json, Outcome, TenantId};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::task::Tx;
use crate::store::{JobStore as _, WorkerStore as _};
use crate::store::{NewBlob, NewJob, Settlement, WrappedKey};

fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn complete(store: &SqliteStore, job: NewJob) -> JobId {
    let id = accept(store, job).await;
    let lease = claim(store, 1).await.leases.remove(0).to_ref();
    let done = Settlement::of(lease, Outcome::Completed(Json::null()));
    store.settle(vec![done]).await.remove(0).unwrap();
    id
}

/// Runs tasks until the content is gone: the log is truncated after a result is sent, as soon as no task is queued, and some
/// time after a truncation that a reader blocked.
async fn truncated(store: &SqliteStore, holds: impl Fn() -> bool) {
    while holds() {
        store.writer.call(|_| Ok(())).await.unwrap();
        store.clock.advance(Duration::from_secs(1));
    }
}

/// Regression: pages that a large input had filled were freed without being overwritten.
#[tokio::test]
async fn nothing_of_a_purged_input_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-wal"));
    let store = SqliteStore::open(&path, clock()).unwrap();
    let input = Json::from_value(&"canary".repeat(3_500)).unwrap();
    let id = complete(&store, NewJob { input, ..new_job() }).await;
    assert!(holds(&log, "canary"));
    store.purge(&TenantId::default(), id).await.unwrap();
    truncated(&store, || holds(&log, "canary")).await;
    assert!(!holds(&path, "canary"));
}

#[tokio::test]
async fn nothing_of_a_destroyed_key_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-wal"));
    let store = SqliteStore::open(&path, clock()).unwrap();
    let payload = NewBlob {
        path: "default/job/1".to_owned(),
        name: "payload".to_owned(),
        content_type: "text/plain".to_owned(),
        size: 1,
        digest: [7; 32],
        key: WrappedKey(b"canary".repeat(10)),
        replica: "r1".to_owned(),
    };
    accept(&store, NewJob { payload: Some(payload.clone()), ..new_job() }).await;
    assert!(holds(&log, "canary"));
    // The key moves from the log to the database, and must be erased there too.
    let scrub = |tx: &Tx<'_>| {
        tx.deleted.set(true);
        Ok(())
    };
    store.writer.call(scrub).await.unwrap();
    truncated(&store, || holds(&log, "canary")).await;
    assert!(holds(&path, "canary"));
    let lease = claim(&store, 1).await.leases.remove(0).to_ref();
    store.settle(vec![Settlement::of(lease, Outcome::Cancelled)]).await.remove(0).unwrap();
    truncated(&store, || holds(&log, "canary") || holds(&path, "canary")).await;
}

/// Regression: only the process that deleted content knew that the log still contained it.
#[tokio::test]
async fn nothing_deleted_stays_in_the_log_of_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let store = SqliteStore::open(file("jobs.db"), clock()).unwrap();
    let input = Json::from_value(&"canary".repeat(3_500)).unwrap();
    let id = complete(&store, NewJob { input, ..new_job() }).await;
    // An open read keeps the log from being emptied.
    let reader = rusqlite::Connection::open(file("jobs.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
    store.purge(&TenantId::default(), id).await.unwrap();
    // The files that a process killed at this moment would leave.
    for end in ["", "-wal"] {
        fs::copy(file(&format!("jobs.db{end}")), file(&format!("left.db{end}"))).unwrap();
    }
    let log = file("left.db-wal");
    assert!(holds(&log, "canary"));
    let next = SqliteStore::open(file("left.db"), clock()).unwrap();
    truncated(&next, || holds(&log, "canary")).await;
    assert!(!holds(&file("left.db"), "canary"));
}

#[tokio::test]
async fn deleted_content_leaves_the_log_after_a_long_read_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-wal"));
    let store = SqliteStore::open(&path, clock()).unwrap();
    let input = Json::from_value(&"canary".repeat(3_500)).unwrap();
    let id = complete(&store, NewJob { input, ..new_job() }).await;
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
    store.purge(&TenantId::default(), id).await.unwrap();
    for _ in 0..60 {
        accept(&store, new_job()).await;
        store.clock.advance(Duration::from_secs(1));
    }
    assert!(holds(&log, "canary"));
    reader.execute_batch("COMMIT").unwrap();
    truncated(&store, || holds(&log, "canary") || holds(&path, "canary")).await;
}

#[tokio::test]
async fn long_log_is_moved_into_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = SqliteStore::open(&path, clock()).unwrap();
    let input = Json::from_value(&"x".repeat(1 << 20)).unwrap();
    for _ in 0..18 {
        accept(&store, NewJob { input: input.clone(), ..new_job() }).await;
    }
    claim(&store, 1).await;
    assert!(fs::metadata(&path).unwrap().len() > 15 << 20);
}
