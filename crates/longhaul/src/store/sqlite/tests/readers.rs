//! Reader threads.

use std::sync::mpsc;
use std::time::Duration;

use super::{accept, clock, new_job};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::task::Tx;
use crate::store::{JobStore as _, ReplicaStore as _, Store as _, StoreError, WorkerStore as _};

fn file() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("jobs.db"), clock()).unwrap();
    (folder, store)
}

/// Occupies one thread for lists until the sender is dropped.
async fn long_list(store: &SqliteStore, released: mpsc::Receiver<()>) {
    let list = store.read_list(move |_| {
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

/// Regression: submissions count a quota's jobs, claims look for the next due time and requests look up their key, and all
/// of them waited for the lists of any tenant.
#[tokio::test]
async fn short_reads_do_not_wait_for_lists() {
    let (_folder, store) = file();
    let tenant = TenantId::default();
    accept(&store, new_job()).await;
    let (first, second) = (mpsc::channel(), mpsc::channel());
    tokio::join!(long_list(&store, first.1), long_list(&store, second.1), async {
        assert_eq!(store.count_pending(&tenant, None, 10).await.unwrap(), 1);
        store.next_due_at(store.now()).await.unwrap();
        store.replicas().await.unwrap();
        drop((first.0, second.0));
    });
}

/// Regression: a read could hold its snapshot for any time, and the write-ahead log grew until it ended.
#[tokio::test]
async fn long_read_that_keeps_the_log_from_being_truncated_is_interrupted() {
    const ENDLESS: &str =
        "WITH RECURSIVE n (n) AS (SELECT count(*) FROM jobs UNION ALL SELECT n + 1 FROM n)
        SELECT count(*) FROM n";
    let (folder, store) = file();
    let write = async || {
        accept(&store, new_job()).await;
        store.clock.advance(Duration::from_secs(1));
        let delete = |tx: &Tx<'_>| {
            tx.deleted.set(true);
            Ok(())
        };
        store.writer.call(delete).await.unwrap();
    };
    let endless = store.read_list(|tx| Ok(tx.one::<i64>(ENDLESS, [])?));
    let mut endless = Box::pin(endless);
    let interrupted = loop {
        tokio::select! {
            biased;
            read = &mut endless => break read,
            () = write() => {}
        }
    };
    assert!(matches!(interrupted, Err(StoreError::Unavailable(_))), "{interrupted:?}");
    let wal = folder.path().join("jobs.db-wal");
    while std::fs::metadata(&wal).unwrap().len() > 0 {
        write().await;
    }
    // The connection is as good as new.
    let count = store.read_list(|tx| Ok(tx.one::<i64>("SELECT count(*) FROM jobs", [])?));
    assert!(count.await.unwrap().is_some());
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
