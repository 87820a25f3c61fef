//! Reader threads.

use std::sync::mpsc;

use super::{accept, clock, new_job};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::sqlite::SqliteStore;
use crate::store::{JobStore as _, StoreError};

fn file() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("jobs.db"), clock()).unwrap();
    (folder, store)
}

/// Occupies one thread for lists until the sender is dropped.
async fn long_list(store: &SqliteStore, released: mpsc::Receiver<()>) {
    let list = store.read(move |_| {
        released.recv().ok();
        Ok(())
    });
    list.await.unwrap();
}

#[tokio::test]
async fn reads_of_single_jobs_do_not_wait_for_lists() {
    let (_folder, store) = file();
    let id = accept(&store, new_job()).await;
    let (first, second) = (mpsc::channel(), mpsc::channel());
    tokio::join!(long_list(&store, first.1), long_list(&store, second.1), async {
        assert_eq!(store.job(&TenantId::default(), id).await.unwrap().job.id, id);
        drop((first.0, second.0));
    });
}

#[tokio::test]
async fn reads_that_share_a_transaction_get_their_own_results() {
    let (_folder, store) = file();
    let tenant = TenantId::default();
    let id = accept(&store, new_job()).await;
    let (release, released) = mpsc::channel::<()>();
    let held = store.read_job(move |_| {
        released.recv().ok();
        Ok(())
    });
    let missing = JobId::from_parts(Timestamp::from_millis(0), 0);
    let reads = async {
        tokio::join!(store.job(&tenant, id), store.job(&tenant, missing), store.input(&tenant, id))
    };
    // Polled in this order: all reads are queued before the first one ends.
    let (held, (found, unknown, input), ()) = tokio::join!(held, reads, async { drop(release) });
    held.unwrap();
    assert_eq!(found.unwrap().job.id, id);
    assert!(matches!(unknown, Err(StoreError::NotFound)), "{unknown:?}");
    assert_eq!(input.unwrap().as_str(), "null");
}
