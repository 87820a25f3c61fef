//! Lists beside other calls, and lists that few jobs match.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use longhaul::job::TenantId;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Filter, JobStore as _, Page, PageRequest, Store, StoreError};
use longhaul::{BulkCommand, Clock, Engine};
use tokio::task::JoinHandle;

use super::{START, Signal, echo, still};

/// Holds every list until it is released.
struct SlowListStore {
    inner: SqliteStore,
    /// Sent when a list begins.
    began: Signal,
    go: Signal,
    /// Lists of each tenant that run, and the most that ever did.
    running: Mutex<HashMap<TenantId, (usize, usize)>>,
}

impl SlowListStore {
    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        {
            let mut running = self.running.lock().unwrap();
            let (now, peak) = running.entry(tenant.clone()).or_default();
            *now += 1;
            *peak = (*peak).max(*now);
        }
        self.began.send();
        self.go.wait().await;
        self.running.lock().unwrap().get_mut(tenant).unwrap().0 -= 1;
        self.inner.jobs(tenant, filter, page).await
    }

    /// Returns the most lists of a tenant that ever ran at a time.
    fn peak(&self, tenant: &TenantId) -> usize {
        self.running.lock().unwrap()[tenant].1
    }
}

longhaul::delegate_store!(impl for SlowListStore, to [inner], except jobs);

async fn engine() -> (Engine, Arc<SlowListStore>) {
    let clock = Clock::manual(START);
    let store = Arc::new(SlowListStore {
        inner: SqliteStore::memory(clock.clone()).unwrap(),
        began: Signal::new(),
        go: Signal::new(),
        running: Mutex::default(),
    });
    let builder = Engine::builder().store(Arc::clone(&store) as Arc<dyn Store>).clock(clock);
    (builder.register(echo()).start().await.unwrap(), store)
}

fn list(engine: &Engine, tenant: &TenantId) -> JoinHandle<Result<Page, StoreError>> {
    let engine = engine.for_tenant(tenant.clone());
    tokio::spawn(
        async move { engine.jobs_page(&Filter::default(), &PageRequest::new(10, None)).await },
    )
}

/// Regression: eight callers with a filter that matches nothing occupied all connections for lists, and on Postgres those
/// that submissions, claims and reads need.
#[tokio::test]
async fn lists_of_one_tenant_do_not_wait_for_those_of_another() {
    let (engine, store) = engine().await;
    let (us, other) = (TenantId::default(), TenantId::new("other").unwrap());
    let ours: Vec<_> = (0..4).map(|_| list(&engine, &us)).collect();
    store.began.wait().await;
    let theirs = list(&engine, &other);
    store.began.wait().await;
    assert_eq!((store.peak(&us), store.peak(&other)), (1, 1));
    for _ in 0..5 {
        store.go.send();
    }
    theirs.await.unwrap().unwrap();
    for list in ours {
        list.await.unwrap().unwrap();
    }
    assert_eq!(store.peak(&us), 1);
}

#[tokio::test]
async fn list_keeps_its_permit_although_its_caller_stopped_waiting() {
    let (engine, store) = engine().await;
    let us = TenantId::default();
    let first = list(&engine, &us);
    store.began.wait().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let second = list(&engine, &us);
    store.go.send();
    store.go.send();
    second.await.unwrap().unwrap();
    assert_eq!(store.peak(&us), 1);
}

/// A page examines a bounded number of jobs, and streams and bulk commands go on to the last page.
#[tokio::test]
async fn streams_and_bulk_commands_read_past_pages_without_matches() {
    let (builder, _clock) = still();
    let engine = builder.register(echo()).start().await.unwrap();
    let submit = || engine.submit_raw("echo", "text").delay(Duration::from_hours(1));
    let oldest = submit().label("team", "blue").await.unwrap();
    let others = (0..PageRequest::EXAMINED_MAX + 100).map(|_| submit()).collect();
    for other in engine.submit_all(others).await {
        other.unwrap();
    }
    let blue = [("team".to_owned(), "blue".to_owned())].into();
    let filter = Filter { labels: blue, ..Filter::default() };
    let first = engine.jobs_page(&filter, &PageRequest::new(10, None)).await.unwrap();
    assert!(first.jobs.is_empty() && first.next.is_some());
    let jobs: Vec<_> = engine.jobs(filter.clone()).try_collect().await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [oldest.id()]);
    assert_eq!(engine.bulk(&filter, BulkCommand::Cancel).await.unwrap(), 1);
}
