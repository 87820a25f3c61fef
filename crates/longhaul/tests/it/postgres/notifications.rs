//! Notifications of new jobs.

use std::sync::Arc;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::{Ctx, Engine, JobError, Kind};
use tokio::sync::mpsc;

use super::TestDatabase;

/// The clock stands still, so that no worker polls: each job is claimed because of its
/// notification, even if it arrives during a claim that has already read the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notification_during_a_claim_is_not_lost() {
    let (database, clock) = (TestDatabase::create().await, StoreHarness::clock());
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let (began, mut numbers) = mpsc::unbounded_channel();
    let kind = Kind::new("tell", move |_ctx: Ctx, number: u32| {
        began.send(number).unwrap();
        async { Ok::<_, JobError>(()) }
    });
    let builder = Engine::builder().store(Arc::new(store)).clock(clock).register(kind);
    let engine = builder.concurrency(1).start().await.unwrap();
    // Each job is submitted while the end of its predecessor frees the slot and starts a claim.
    for number in 0..200 {
        engine.submit_raw("tell", &number).await.unwrap();
        assert_eq!(numbers.recv().await, Some(number));
    }
    engine.stop().await;
}
