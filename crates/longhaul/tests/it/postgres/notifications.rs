//! Notifications of new jobs and of cancellations.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::{Clock, Ctx, Engine, JobError, Kind, ResultError};
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

/// No lease is renewed in the next 20 minutes, and the step has no end and so no checkpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notification_of_a_cancellation_reaches_the_replica_that_runs_the_job() {
    let database = TestDatabase::create().await;
    let builder = async |replica: &str| {
        let store = PostgresStore::open(&database.url(), Clock::system()).await.unwrap();
        Engine::builder()
            .store(Arc::new(store))
            .replica(replica)
            .lease(Duration::from_hours(1), Duration::from_mins(20))
    };
    let (began, mut steps) = mpsc::unbounded_channel();
    let endless = Kind::new("endless", move |ctx: Ctx, (): ()| {
        let began = began.clone();
        async move {
            let endless = || {
                began.send(()).unwrap();
                std::future::pending::<Result<(), JobError>>()
            };
            ctx.step("endless", endless).await
        }
    });
    let there = builder("there").await.register(endless).start().await.unwrap();
    let here = builder("here").await.concurrency(0).start().await.unwrap();
    let job = here.submit_raw("endless", &()).await.unwrap();
    steps.recv().await.unwrap();
    job.cancel().await.unwrap();
    assert!(matches!(job.result_as::<()>().await, Err(ResultError::Cancelled)));
    there.stop().await;
    here.stop().await;
}
