//! Being told that there is work.

use std::sync::Arc;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::{Ctx, Engine, JobError, Kind};
use tokio::sync::mpsc;

use super::TestDatabase;

/// With a clock that stands still nobody polls: each job is claimed because it was announced, also while a
/// claim that looked too early for it is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_announcement_is_lost_to_a_claim_under_way() {
    let (database, clock) = (TestDatabase::create().await, StoreHarness::clock());
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let (began, mut numbers) = mpsc::unbounded_channel();
    let kind = Kind::new("tell", move |_ctx: Ctx, number: u32| {
        began.send(number).unwrap();
        async { Ok::<_, JobError>(()) }
    });
    let builder = Engine::builder().store(Arc::new(store)).clock(clock).register(kind);
    let engine = builder.concurrency(1).start().await.unwrap();
    // The next one is submitted while the end of the one before makes room, and a claim of it.
    for number in 0..200 {
        engine.submit_raw("tell", &number).await.unwrap();
        assert_eq!(numbers.recv().await, Some(number));
    }
    engine.stop().await;
}
