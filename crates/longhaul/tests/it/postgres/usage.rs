//! Usage rollup, from ended jobs to hourly sums.

use longhaul::job::{TenantId, Timestamp};
use longhaul::store::conformance::{StoreHarness, done, json, settlement};
use longhaul::store::{Checkpoint, Lease, NewJob};
use longhaul::store::{JobStore as _, MaintenanceStore as _, WorkerStore as _};

use super::database::{TestDatabase, open_now};
use crate::support::total_usage;

fn step(lease: &Lease, name: &str, now: Timestamp) -> Checkpoint {
    Checkpoint {
        lease: lease.to_ref(),
        name: name.to_owned(),
        position: 0,
        output: json("1"),
        alone: true,
        started_at: now,
    }
}

/// A process counts the steps that it stored, but another process may have stored some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_counts_steps_stored_by_another_process() {
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let [one, other] = [(); 2].map(|()| open_now(&database.url(), clock.clone()));
    let make = StoreHarness::new(open_now(&database.url(), clock.clone()), clock.clone());
    let mut steps = 0;
    for others in [["a"].as_slice(), &["a", "b"], &[]] {
        one.submit(vec![make.job()]).await.remove(0).unwrap();
        let lease = one.claim(&make.want(1)).await.unwrap().leases.remove(0);
        for name in others {
            other.checkpoint(step(&lease, name, clock.now())).await.unwrap();
        }
        for name in ["a", "c"] {
            one.checkpoint(step(&lease, name, clock.now())).await.unwrap();
        }
        one.settle(vec![settlement(&lease, done())]).await.remove(0).unwrap();
        let stored = one.steps(&TenantId::default(), lease.job.id).await.unwrap().len() as u64;
        steps += stored;
        assert_eq!(total_usage(&one).await.steps, steps, "{others:?}");
    }
    assert_eq!(total_usage(&other).await.jobs, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_end_in_one_batch_add_one_usage_row() {
    const JOBS: usize = 50;
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let store = open_now(&database.url(), clock.clone());
    let make = StoreHarness::new(open_now(&database.url(), clock.clone()), clock.clone());
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| make.job()).collect();
    store.submit(jobs).await;
    let leases = store.claim(&make.want(JOBS)).await.unwrap().leases;
    let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
    assert_eq!(store.settle(ends).await.iter().filter(|end| end.is_ok()).count(), JOBS);
    let client = database.connect().await;
    let rows = async |table: &str| {
        let count = format!("SELECT count(*), sum(jobs)::bigint FROM longhaul.{table}");
        let row = client.query_one(&count, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, Option<i64>>(1).unwrap_or_default())
    };
    let all = i64::try_from(JOBS).unwrap();
    assert_eq!((rows("usage_deltas").await, rows("usage").await), ((1, all), (0, 0)));
    assert_eq!(store.roll_up_usage(10).await, Ok(1));
    assert_eq!((rows("usage_deltas").await, rows("usage").await), ((0, 0), (1, all)));
    assert_eq!(store.roll_up_usage(10).await, Ok(0));
    assert_eq!(total_usage(&store).await.jobs, JOBS as u64);
}
