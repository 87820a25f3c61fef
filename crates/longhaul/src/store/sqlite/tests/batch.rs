//! Group commit.

use std::sync::mpsc;

use rusqlite::ffi;
use tokio::sync::oneshot;

use super::{accept, memory, new_job, submit};
use crate::job::TenantId;
use crate::store::JobStore as _;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::{Tx, call};
use crate::store::sqlite::{SqliteStore, sql, submit as submit_in};
use crate::store::{NewJob, StoreError, SubmitResult};

type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// Blocks the writer, so that tasks queued meanwhile share a batch. Dropping the sender releases it.
pub(super) async fn hold(store: &SqliteStore) -> (mpsc::Sender<()>, Answer<()>) {
    let (release, released) = mpsc::channel::<()>();
    let answer = queue(store, move |_| {
        released.recv().ok();
        Ok(())
    });
    (release, answer.await)
}

async fn queue<T: Send + 'static>(
    store: &SqliteStore,
    body: impl FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
) -> Answer<T> {
    let (task, answer) = call(body);
    store.writer.send(task).await.unwrap();
    answer
}

async fn queue_submit(store: &SqliteStore, job: NewJob) -> Answer<SubmitResult> {
    queue(store, move |tx| submit_in::submit(tx, &job)).await
}

fn failure(code: std::ffi::c_int) -> SqliteError {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
}

#[tokio::test]
async fn one_failing_item_fails_alone() {
    let store = memory();
    let (release, _) = hold(&store).await;
    let before = queue_submit(&store, new_job()).await;
    let failing = queue(&store, |tx| Ok(tx.run("INSERT INTO nowhere VALUES (1)", [])?)).await;
    let after = queue_submit(&store, new_job()).await;
    drop(release);
    for submitted in [before, after] {
        let id = submitted.await.unwrap().unwrap().record.job.id;
        store.job(&TenantId::default(), id).await.unwrap();
    }
    assert!(matches!(failing.await.unwrap(), Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn refusal_after_a_write_leaves_no_trace_and_spares_its_neighbours() {
    let store = memory();
    let (release, _) = hold(&store).await;
    let job = new_job();
    let (id, tenant) = (job.id, job.tenant.clone());
    let refused = queue(&store, move |tx| {
        submit_in::submit(tx, &job)?;
        Err::<(), _>(StoreError::LeaseLost.into())
    })
    .await;
    let neighbour = queue_submit(&store, new_job()).await;
    drop(release);
    assert_eq!(refused.await.unwrap(), Err(StoreError::LeaseLost));
    assert!(neighbour.await.unwrap().is_ok());
    assert_eq!(store.job(&tenant, id).await, Err(StoreError::NotFound));
}

#[tokio::test]
async fn nothing_is_acknowledged_before_its_commit() {
    let store = memory();
    let first = queue_submit(&store, new_job());
    let (release, held) = mpsc::channel::<()>();
    let (reached, at_second) = oneshot::channel();
    let mut reached = Some(reached);
    // `hold` ensures that both are in one batch.
    let (go, _) = hold(&store).await;
    let mut first = first.await;
    let second = queue(&store, move |_| {
        if let Some(reached) = reached.take() {
            reached.send(()).unwrap();
            held.recv().ok();
        }
        Ok(())
    })
    .await;
    drop(go);
    at_second.await.unwrap();
    // The first body has run, but the batch is not committed.
    assert!(first.try_recv().is_err());
    drop(release);
    second.await.unwrap().unwrap();
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged() {
    let store = memory();
    let id = accept(&store, new_job()).await;
    let failed = queue(&store, |_| Err::<(), _>(failure(ffi::SQLITE_IOERR_FSYNC))).await;
    assert!(matches!(failed.await.unwrap(), Err(StoreError::Broken(_))));
    assert!(matches!(submit(&store, new_job()).await, Err(StoreError::Broken(_))));
    let cancelled = store.cancel(&TenantId::default(), id).await;
    assert!(matches!(cancelled, Err(StoreError::Broken(_))));
}

#[tokio::test]
async fn full_disk_refuses_and_heals() {
    let store = memory();
    let pages = |tx: &Tx<'_>, max: i64| Ok(tx.conn.pragma_update(None, "max_page_count", max)?);
    queue(&store, move |tx| pages(tx, 1)).await.await.unwrap().unwrap();
    let mut large = new_job();
    large.input = crate::job::Json::from_value(&"x".repeat(1 << 20)).unwrap();
    assert_eq!(submit(&store, large.clone()).await.unwrap_err(), StoreError::StorageFull);
    queue(&store, move |tx| pages(tx, i64::from(u32::MAX) - 1)).await.await.unwrap().unwrap();
    accept(&store, large).await;
}

#[tokio::test]
async fn panicking_body_breaks_the_store_instead_of_hanging_it() {
    let store = memory();
    let panicked = queue(&store, |tx| -> Result<(), SqliteError> {
        tx.run(sql::DELETE_JOB, [0])?;
        panic!("a bug");
    });
    assert!(panicked.await.await.is_err());
    assert!(matches!(submit(&store, new_job()).await, Err(StoreError::Broken(_))));
}
