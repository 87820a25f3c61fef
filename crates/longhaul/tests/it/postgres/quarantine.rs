//! Quarantine of unreadable jobs, so that one of them does not block the others.

use std::sync::Arc;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Claim, FlowLimit, FlowLimits};

use super::database::TestDatabase;

/// A new job that cannot be read, and one that has changed since its submission.
const DAMAGES: [&str; 2] = ["webhook = '{'", "error = '{', version = 2"];

/// Damages the first of two queued jobs and claims one job at a time, twice.
async fn second_job_is_claimed(limits: FlowLimits) {
    for damage in DAMAGES {
        second_job_is_claimed_after(damage, limits.clone()).await;
    }
}

async fn second_job_is_claimed_after(damage: &str, limits: FlowLimits) {
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let bench = StoreHarness::new(store, clock);
    let (damaged, sound) = (bench.pending().await, bench.pending().await);
    let damage = format!("UPDATE longhaul.jobs SET {damage} WHERE id = '{}'", damaged.id);
    database.connect().await.batch_execute(&damage).await.unwrap();
    let want = Claim { limits: Arc::new(limits), ..bench.want(1) };
    let mut claimed = Vec::new();
    for _ in 0..2 {
        claimed.extend(bench.store().claim(&want).await.unwrap().leases);
    }
    let ids: Vec<_> = claimed.iter().map(|lease| lease.job.id).collect();
    assert_eq!(ids, [sound.id], "{damage}");
    drop(bench);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_job_does_not_block_the_next_job() {
    second_job_is_claimed(FlowLimits::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_job_does_not_block_the_next_job_within_limits() {
    let tenants = FlowLimit::running(5);
    second_job_is_claimed(FlowLimits { tenants, ..FlowLimits::default() }).await;
}
