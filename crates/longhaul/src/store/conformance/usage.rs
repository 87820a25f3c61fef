//! Usage metering: each finished job is counted once.

use std::time::Duration;

use super::harness::{
    LEASE, StoreHarness, done, failed, failed_for_good, name, settlement, tenant,
};
use crate::job::{Outcome, TenantId, Timestamp, Tokens, USAGE_RETENTION, Usage, UsageRow, hour_of};
use crate::store::{Claim, KindCapacity, Lease, NewBlob, NewJob, Settlement, WrappedKey};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

async fn rows_of(harness: &StoreHarness, tenant: &TenantId) -> Vec<UsageRow> {
    harness.store().usage(tenant, Timestamp::from_millis(0), Timestamp::MAX).await.unwrap()
}

async fn rows(harness: &StoreHarness) -> Vec<UsageRow> {
    rows_of(harness, &TenantId::default()).await
}

async fn sum(harness: &StoreHarness) -> Usage {
    let mut sum = Usage::default();
    rows(harness).await.into_iter().for_each(|row| sum += row.usage);
    sum
}

fn jobs(jobs: u64) -> Usage {
    Usage { jobs, ..Usage::default() }
}

fn payload(harness: &StoreHarness, size: u64) -> NewJob {
    let job = harness.job();
    let payload = NewBlob {
        path: format!("blobs/{}", job.id),
        name: "payload".to_owned(),
        content_type: "text/plain".to_owned(),
        size,
        digest: [7; 32],
        key: WrappedKey(vec![1, 2, 3]),
        replica: "replica-1".to_owned(),
    };
    NewJob { payload: Some(payload), ..job }
}

/// Language model tokens are metered once, with the attempt that finishes the job.
pub async fn tokens_are_counted_by_the_attempt_that_ends(harness: &StoreHarness) {
    let tokens = Tokens { prompt: 11, completion: 7 };
    let with_tokens = |lease: &Lease, outcome| Settlement { tokens, ..settlement(lease, outcome) };
    let lease = harness.running().await;
    let settle = async |end: Settlement| harness.store().settle(vec![end]).await.pop().unwrap();
    settle(with_tokens(&lease, failed())).await.unwrap();
    assert_eq!(sum(harness).await, jobs(0), "the job has not finished");
    let lease = harness.claim_one().await;
    let end = with_tokens(&lease, done());
    // Repeated, as if the response was lost.
    for _ in 0..2 {
        settle(end.clone()).await.unwrap();
        assert_eq!(sum(harness).await.tokens, tokens);
    }
    let lease = harness.running().await;
    harness.settle(&lease, done()).await.unwrap();
    harness.store().roll_up_usage(100).await.unwrap();
    assert_eq!(sum(harness).await, Usage { tokens, ..jobs(2) });
}

/// A job is metered when it finishes, for every outcome, and not before.
pub async fn every_end_is_counted_once(harness: &StoreHarness) {
    let mut ended = 0;
    for outcome in [done(), failed_for_good(), Outcome::Cancelled] {
        let lease = harness.running().await;
        assert_eq!(sum(harness).await, jobs(ended), "{outcome:?}");
        harness.settle(&lease, outcome.clone()).await.unwrap();
        ended += 1;
        assert_eq!(sum(harness).await, jobs(ended), "{outcome:?}");
    }
    let id = harness.pending().await.id;
    for _ in 0..2 {
        harness.store().cancel(&TenantId::default(), id).await.unwrap();
        assert_eq!(sum(harness).await, jobs(ended + 1), "cancelled while pending");
    }
    let lease = harness.running_as(NewJob { max_attempts: 1, ..harness.job() }).await;
    harness.lose(&lease).await;
    assert_eq!(sum(harness).await.jobs, ended + 2, "failed with a lost lease");
    harness.accept(payload(harness, 0)).await;
    let kept = Duration::from_mins(1);
    harness.advance(kept);
    assert_eq!(harness.store().expire_payloads(kept, 10).await.unwrap().len(), 1);
    assert_eq!(sum(harness).await.jobs, ended + 3, "its payload expired");
}

/// A repeated settlement, whose first response was lost, is not metered again.
pub async fn settling_again_counts_nothing(harness: &StoreHarness) {
    for outcome in [done(), failed_for_good(), Outcome::Cancelled] {
        let lease = harness.running().await;
        harness.step(&lease, 0, "extract", "1").await.unwrap();
        harness.step(&lease, 0, "extract", "1").await.unwrap();
        harness.advance(SECOND);
        harness.settle(&lease, outcome.clone()).await.unwrap();
        let before = sum(harness).await;
        harness.advance(SECOND);
        harness.settle(&lease, outcome).await.unwrap();
        assert_eq!(sum(harness).await, before);
    }
    assert_eq!(sum(harness).await, Usage { jobs: 3, run_ms: 3_000, steps: 3, ..Usage::default() });
}

/// A job that has not finished is not metered; its end meters all attempts.
pub async fn attempts_are_counted_with_their_job(harness: &StoreHarness) {
    let lease = harness.running().await;
    let sleep = Outcome::Sleep { until: harness.now().after(SECOND) };
    let mut lease = Some(lease);
    for outcome in [failed(), Outcome::Released, sleep] {
        let held = lease.take().unwrap();
        harness
            .step(&held, held.epoch.try_into().unwrap(), &held.epoch.to_string(), "1")
            .await
            .unwrap();
        harness.advance(SECOND);
        harness.settle(&held, outcome).await.unwrap();
        assert_eq!(rows(harness).await, []);
        // Time in the queue is not metered.
        harness.advance(SECOND * 5);
        lease = Some(harness.claim_one().await);
    }
    harness.advance(SECOND);
    harness.settle(&lease.unwrap(), done()).await.unwrap();
    assert_eq!(sum(harness).await, Usage { jobs: 1, run_ms: 4_000, steps: 3, ..Usage::default() });
}

/// A job that is cancelled between attempts is metered with its earlier steps and run time.
pub async fn job_cancelled_between_attempts_is_counted_with_what_it_did(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "extract", "1").await.unwrap();
    harness.advance(SECOND);
    harness.settle(&lease, failed()).await.unwrap();
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    assert_eq!(sum(harness).await, Usage { jobs: 1, run_ms: 1_000, steps: 1, ..Usage::default() });
}

/// A resumed job that finishes again adds only its new usage, and is not counted as another job.
pub async fn resumed_job_adds_what_is_new(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "extract", "1").await.unwrap();
    harness.advance(SECOND * 2);
    harness.settle(&lease, failed_for_good()).await.unwrap();
    let id = lease.job.id;
    harness.store().resume(&TenantId::default(), id).await.unwrap();
    harness.store().cancel(&TenantId::default(), id).await.unwrap();
    assert_eq!(sum(harness).await, Usage { jobs: 1, run_ms: 2_000, steps: 1, ..Usage::default() });
    harness.store().resume(&TenantId::default(), id).await.unwrap();
    let lease = harness.claim_one().await;
    harness.step(&lease, 1, "index", "2").await.unwrap();
    harness.advance(SECOND * 3);
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(sum(harness).await, Usage { jobs: 1, run_ms: 5_000, steps: 2, ..Usage::default() });
}

/// A lost attempt is metered until its lease expired, at most.
pub async fn lost_attempt_ran_until_its_lease_ended(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.advance(SECOND * 5);
    harness.store().renew(vec![lease.to_ref()], LEASE).await.unwrap();
    harness.advance(HOUR);
    assert_eq!(harness.lose(&lease).await.id, lease.job.id);
    assert_eq!(rows(harness).await, []);
    let lease = harness.claim_one().await;
    harness.advance(SECOND);
    harness.settle(&lease, done()).await.unwrap();
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    assert_eq!(sum(harness).await, Usage { run_ms: 5_000 + lease_ms + 1_000, ..jobs(1) });
}

/// An attempt that was running when the store restarted is metered until its lease expired, at most.
pub async fn attempt_that_outlives_its_store_is_counted(harness: &StoreHarness) {
    let lease = harness.running_as(NewJob { max_attempts: 1, ..harness.job() }).await;
    harness.step(&lease, 0, "extract", "1").await.unwrap();
    harness.advance(SECOND * 3);
    if !harness.reopen() {
        return;
    }
    assert_eq!(rows(harness).await, []);
    harness.lose(&lease).await;
    let Usage { jobs, run_ms, steps, .. } = sum(harness).await;
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    assert_eq!((jobs, steps), (1, 1));
    assert!((3_000..=lease_ms).contains(&run_ms), "{run_ms}");
    assert!(harness.reopen());
    assert_eq!(sum(harness).await, Usage { jobs, run_ms, steps, ..Usage::default() });
}

/// A fork is counted as a job, without the steps that it started with.
pub async fn fork_is_counted_for_what_it_did_itself(harness: &StoreHarness) {
    let key_id = Some("key-1".to_owned());
    let lease = harness.running_as(NewJob { key_id: key_id.clone(), ..harness.job() }).await;
    for (position, step) in ["extract", "embed", "index"].into_iter().enumerate() {
        harness.step(&lease, position.try_into().unwrap(), step, "1").await.unwrap();
    }
    harness.settle(&lease, done()).await.unwrap();
    for (from, steps) in [(Some("embed"), 4), (None, 5)] {
        let fork = harness.id();
        harness.store().fork(&TenantId::default(), lease.job.id, fork, from).await.unwrap();
        let lease = harness.claim_one().await;
        harness.step(&lease, 7, "publish", "1").await.unwrap();
        harness.settle(&lease, done()).await.unwrap();
        assert_eq!(sum(harness).await.steps, steps, "from {from:?}");
    }
    let rows = rows(harness).await;
    assert_eq!((rows.len(), rows[0].usage.jobs, &rows[0].key), (1, 3, &key_id));
}

/// Payload bytes are metered once, with their job.
pub async fn payload_is_counted_once(harness: &StoreHarness) {
    for size in [5_000, 70] {
        let lease = harness.running_as(payload(harness, size)).await;
        harness.advance(SECOND);
        harness.settle(&lease, failed()).await.unwrap();
        let lease = harness.claim_one().await;
        harness.settle(&lease, done()).await.unwrap();
    }
    assert_eq!(sum(harness).await, Usage { run_ms: 2_000, payload_bytes: 5_070, ..jobs(2) });
}

/// Usage is returned by hour, kind and key, in that order.
pub async fn usage_is_told_by_hour_kind_and_key(harness: &StoreHarness) {
    harness.advance(hour_of(harness.now()).after(HOUR).since(harness.now()));
    let first = harness.now();
    let run = async |kind: &str, key: Option<&str>| {
        let key_id = key.map(ToOwned::to_owned);
        harness.accept(NewJob { kind: name(kind), key_id, ..harness.job() }).await;
        let kinds = vec![KindCapacity { kind: name(kind), capacity: 1, code_version: None }];
        let want = Claim { kinds, ..harness.want(1) };
        let lease: Lease = harness.store().claim(&want).await.unwrap().leases.remove(0);
        harness.settle(&lease, done()).await.unwrap();
    };
    run("resize", None).await;
    run("demo", Some("b")).await;
    run("demo", Some("a")).await;
    run("demo", None).await;
    harness.advance_short_of(HOUR);
    run("demo", Some("a")).await;
    harness.advance(Duration::from_millis(1));
    let second = harness.now();
    run("demo", Some("a")).await;
    let told: Vec<_> = rows(harness)
        .await
        .into_iter()
        .map(|row| (row.hour, row.kind.to_string(), row.key, row.usage.jobs))
        .collect();
    let row = |hour, kind: &str, key: Option<&str>, jobs| {
        (hour, kind.to_owned(), key.map(ToOwned::to_owned), jobs)
    };
    let want = [
        row(first, "demo", None, 1),
        row(first, "demo", Some("a"), 2),
        row(first, "demo", Some("b"), 1),
        row(first, "resize", None, 1),
        row(second, "demo", Some("a"), 1),
    ];
    assert_eq!(told, want);
    let hours = async |from, to| {
        let rows = harness.store().usage(&TenantId::default(), from, to).await.unwrap();
        rows.into_iter().map(|row| row.usage.jobs).sum::<u64>()
    };
    assert_eq!(hours(first, second).await, 5);
    assert_eq!(hours(first.after(SECOND), second).await, 5, "`from` includes its whole hour");
    assert_eq!(hours(second, second.after(SECOND)).await, 1);
    assert_eq!(hours(second.after(HOUR), Timestamp::MAX).await, 0);
    assert_eq!(hours(second, first).await, 0);
}

/// A tenant cannot read the usage of another tenant.
pub async fn usage_is_the_tenants_own(harness: &StoreHarness) {
    let other = tenant("other");
    let lease = harness.running_as(harness.job_of(&other)).await;
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(rows(harness).await, []);
    assert_eq!(rows_of(harness, &other).await.len(), 1);
}

/// Usage outlives its jobs, and is deleted after its retention.
pub async fn usage_outlives_the_jobs(harness: &StoreHarness) {
    let id = harness.ended(done()).await.id;
    harness.store().purge(&TenantId::default(), id).await.unwrap();
    harness.ended(done()).await;
    harness.advance(HOUR * 25);
    assert_eq!(harness.store().prune(10).await.unwrap(), 1);
    harness.store().roll_up_usage(10).await.unwrap();
    assert_eq!(sum(harness).await, jobs(2));
    harness.advance(USAGE_RETENTION);
    harness.store().roll_up_usage(10).await.unwrap();
    assert_eq!(rows(harness).await, []);
}

/// Attempts that end while replicas roll up usage are all counted, each once.
pub async fn nothing_is_lost_while_replicas_sum_up(harness: &StoreHarness) {
    const JOBS: usize = 60;
    let keys = |n: usize| Some(format!("key-{}", n % 3));
    harness
        .store()
        .submit((0..JOBS).map(|n| NewJob { key_id: keys(n), ..harness.job() }).collect())
        .await;
    let leases = harness.claim(JOBS).await;
    assert_eq!(leases.len(), JOBS);
    harness.advance(SECOND);
    let mut under_way = tokio::task::JoinSet::new();
    for (n, lease) in leases.into_iter().enumerate() {
        let store = harness.store();
        let ends = super::settlement(&lease, done());
        under_way.spawn(async move { store.settle(vec![ends]).await.remove(0).map(drop) });
        if n % 6 == 0 {
            let store = harness.store();
            under_way.spawn(async move { store.roll_up_usage(7).await.map(drop) });
        }
    }
    for ended in under_way.join_all().await {
        ended.unwrap();
    }
    let all = Usage { run_ms: JOBS as u64 * 1_000, ..jobs(JOBS as u64) };
    assert_eq!(sum(harness).await, all);
    let (one, other) = (harness.store(), harness.store());
    let (one, other) = tokio::join!(one.roll_up_usage(1_000), other.roll_up_usage(1_000));
    one.unwrap();
    other.unwrap();
    assert_eq!(sum(harness).await, all);
    let told: Vec<_> = rows(harness).await.into_iter().map(|row| row.usage.jobs).collect();
    assert_eq!(told, [20, 20, 20]);
}
