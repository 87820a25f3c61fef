//! The write-ahead log: when it is moved into the database, and what is left of what was deleted.

use std::fs;
use std::path::Path;

use super::{accept, claim, clock, new_job};
use crate::job::{Json, Outcome, TenantId};
use crate::store::sqlite::SqliteStore;
use crate::store::{NewJob, Settlement, Store};

fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Pages that a large input had to itself were set free as they were.
#[tokio::test]
async fn nothing_of_a_purged_input_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-wal"));
    let store = SqliteStore::open(&path, clock()).unwrap();
    let input = Json::from_value(&"canary".repeat(3_500)).unwrap();
    let id = accept(&store, NewJob { input, ..new_job() }).await;
    let lease = claim(&store, 1).await.leases.remove(0).to_ref();
    let outcome = Outcome::Completed(Json::null());
    let done =
        Settlement { lease, outcome, phases: Vec::new(), progress: None, artifacts: Vec::new() };
    store.settle(vec![done]).await.remove(0).unwrap();
    assert!(holds(&log, "canary"));
    store.purge(&TenantId::default(), id).await.unwrap();
    // The log is emptied after an answer, as soon as nothing else waits.
    while holds(&log, "canary") {
        claim(&store, 1).await;
    }
    assert!(!holds(&path, "canary"));
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
