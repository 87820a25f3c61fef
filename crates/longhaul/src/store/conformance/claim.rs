//! Selection and order of claimed jobs.

use std::collections::HashSet;
use std::time::Duration;

use super::harness::{LEASE, StoreHarness, TICK, demo, done, failed, name, tenant};
use crate::job::{JobId, Outcome, Status, TenantId};
use crate::store::{Claim, KindCapacity, Lease, NewJob, Start};

const MINUTE: Duration = Duration::from_mins(1);

fn ids(leases: &[Lease]) -> Vec<JobId> {
    leases.iter().map(|lease| lease.job.id).collect()
}

/// Claims one job at a time until none is left.
async fn drain(harness: &StoreHarness) -> Vec<JobId> {
    let mut order = Vec::new();
    while let [lease] = &harness.claim(1).await[..] {
        order.push(lease.job.id);
    }
    order
}

/// A lease contains everything that a worker needs to start.
pub async fn lease_holds_the_job_as_claimed(harness: &StoreHarness) {
    let new = NewJob {
        timeout: Some(MINUTE),
        queue: name("slow"),
        priority: 3,
        max_attempts: 7,
        labels: [("team".to_owned(), "billing".to_owned())].into(),
        parent_id: Some(harness.pending().await.id),
        start: Start::In(TICK),
        ..harness.keyed("order-4711")
    };
    let parent = harness.claim_one().await;
    assert_eq!(new.parent_id, Some(parent.job.id));
    let input = new.input.clone();
    let pending = harness.accept(new).await;
    harness.advance(TICK);
    let lease = harness.claim_one().await;
    assert_eq!(lease.input, input);
    assert_eq!((lease.job.status, lease.job.attempt), (Status::Running, 1));
    assert_eq!(lease.job.started_at, Some(harness.now()));
    assert_eq!(lease.expires_at, harness.now().after(LEASE));
    assert!(lease.steps.is_empty());
    assert!(lease.job.version > pending.version);
    assert_eq!(lease.job, harness.record(pending.id).await.job);
}

/// No job runs twice at the same time.
pub async fn claimed_job_is_not_claimed_again(harness: &StoreHarness) {
    harness.running().await;
    assert!(harness.claim(10).await.is_empty());
}

/// Concurrent claims of several replicas divide the jobs.
pub async fn concurrent_claims_never_share_a_job(harness: &StoreHarness) {
    harness.store().submit((0..60).map(|_| harness.job()).collect()).await;
    let claims: Vec<_> = (0..20)
        .map(|n| {
            let store = harness.store();
            let want = Claim { replica: format!("replica-{n}"), ..harness.want(5) };
            tokio::spawn(async move { store.claim(&want).await.unwrap().leases })
        })
        .collect();
    let mut claimed = Vec::new();
    for claim in claims {
        claimed.extend(ids(&claim.await.unwrap()));
    }
    // A concurrent claim may return nothing while others hold locks; the remaining jobs stay queued.
    claimed.extend(ids(&harness.claim(60).await));
    let distinct: HashSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), distinct.len()), (60, 60));
}

/// Jobs are claimed by due time, and by id if they are due at the same time.
pub async fn jobs_are_claimed_by_due_time_then_by_id(harness: &StoreHarness) {
    let secs = Duration::from_secs;
    let start = |by| NewJob { start: Start::In(by), ..harness.job() };
    let batch = [start(secs(3)), start(secs(1)), start(secs(2)), start(secs(1)), harness.job()];
    let [third, first, second, also_first, now] = batch.clone().map(|job| job.id);
    harness.store().submit(batch.into()).await;
    harness.advance(secs(3));
    let order = ids(&harness.claim(10).await);
    assert_eq!(order, [now, first, also_first, second, third]);
}

/// A job with a higher priority overtakes.
pub async fn higher_priority_goes_first(harness: &StoreHarness) {
    let [low, normal, high] = [-1, 0, 1].map(|priority| NewJob { priority, ..harness.job() });
    let want = [high.id, normal.id, low.id];
    harness.store().submit(vec![low, normal, high]).await;
    assert_eq!(drain(harness).await, want);
}

/// Priority also applies to scheduled jobs that have become due.
pub async fn higher_priority_goes_first_among_jobs_that_were_put_off(harness: &StoreHarness) {
    let start = Start::In(MINUTE);
    let [low, high] = [0, 1].map(|priority| NewJob { priority, start, ..harness.job() });
    let want = [high.id, low.id];
    harness.store().submit(vec![low, high]).await;
    harness.advance(MINUTE);
    assert_eq!(drain(harness).await, want);
}

/// Each point of priority is worth one minute of waiting, so that no job starves.
pub async fn waiting_a_minute_outweighs_a_point_of_priority(harness: &StoreHarness) {
    let patient = harness.pending().await.id;
    harness.advance_short_of(MINUTE * 2);
    let urgent = harness.accept(NewJob { priority: 2, ..harness.job() }).await.id;
    harness.advance(TICK * 2);
    let late = harness.accept(NewJob { priority: 2, ..harness.job() }).await.id;
    assert_eq!(drain(harness).await, [urgent, patient, late]);
}

/// A job that is not due does not delay due jobs, regardless of its priority.
pub async fn urgent_job_that_is_not_due_is_passed_over(harness: &StoreHarness) {
    let urgent = NewJob { priority: 100, start: Start::In(MINUTE), ..harness.job() };
    let urgent = harness.accept(urgent).await.id;
    let due = harness.pending().await.id;
    assert_eq!(drain(harness).await, [due]);
    harness.advance(MINUTE);
    assert_eq!(drain(harness).await, [urgent]);
}

/// A claim returns at most as many jobs as requested.
pub async fn limit_is_respected(harness: &StoreHarness) {
    harness.store().submit((0..5).map(|_| harness.job()).collect()).await;
    assert_eq!(harness.claim(0).await.len(), 0);
    assert_eq!(harness.claim(2).await.len(), 2);
    assert_eq!(harness.claim(10).await.len(), 3);
}

/// Capacity is per kind, and the limit applies to all kinds together.
pub async fn room_of_each_kind_is_respected(harness: &StoreHarness) {
    let kinds = ["small", "large", "none"].map(name);
    for kind in &kinds {
        let jobs = (0..5).map(|_| NewJob { kind: kind.clone(), ..harness.job() }).collect();
        harness.store().submit(jobs).await;
    }
    let room = |limit, rooms: [usize; 3]| Claim {
        kinds: kinds
            .iter()
            .zip(rooms)
            .map(|(kind, capacity)| KindCapacity {
                kind: kind.clone(),
                capacity,
                code_version: None,
            })
            .collect(),
        ..harness.want(limit)
    };
    let of_kind = |leases: &[Lease], kind: usize| {
        leases.iter().filter(|lease| lease.job.kind == kinds[kind]).count()
    };
    let leases = harness.store().claim(&room(10, [1, 3, 0])).await.unwrap().leases;
    assert_eq!([0, 1, 2].map(|kind| of_kind(&leases, kind)), [1, 3, 0]);
    let leases = harness.store().claim(&room(3, [5, 5, 5])).await.unwrap().leases;
    assert_eq!(leases.len(), 3);
}

/// A replica claims only kinds that it requests.
pub async fn unknown_kinds_are_left_to_others(harness: &StoreHarness) {
    let other = harness.accept(NewJob { kind: name("other"), ..harness.job() }).await;
    let claimed = harness.claimed(10).await;
    assert!(claimed.leases.is_empty());
    assert_eq!(harness.record(other.id).await.job, other);
    let nothing = Claim { kinds: Vec::new(), ..harness.want(10) };
    assert!(harness.store().claim(&nothing).await.unwrap().leases.is_empty());
}

/// A tenant with many jobs does not delay another tenant's single job.
pub async fn tenant_with_one_job_is_in_the_first_claim_of_two(harness: &StoreHarness) {
    harness.store().submit((0..1_000).map(|_| harness.job()).collect()).await;
    harness.advance(TICK);
    let small = harness.accept(harness.job_of(&tenant("small"))).await.id;
    let first = ids(&harness.claim(2).await);
    assert_eq!(first.len(), 2);
    assert!(first.contains(&small));
}

/// Tenants also take turns when replicas claim one job at a time.
pub async fn tenants_take_turns_over_successive_claims(harness: &StoreHarness) {
    let tenants = ["a", "b", "c"].map(tenant);
    for tenant in &tenants {
        // All jobs of the first tenant are older than those of the other tenants.
        harness.store().submit((0..3).map(|_| harness.job_of(tenant)).collect()).await;
        harness.advance(TICK);
    }
    for round in 0..3 {
        let mut served = HashSet::new();
        for _ in &tenants {
            served.insert(harness.claim_one().await.job.tenant);
        }
        assert_eq!(served.len(), tenants.len(), "round {round} serves each tenant once");
    }
}

/// Capacity that other tenants do not use goes to tenants with pending jobs.
pub async fn claim_is_filled_by_one_tenant_if_no_other_has_work(harness: &StoreHarness) {
    let other = tenant("other");
    harness.accept(harness.job_of(&other)).await;
    harness.store().submit((0..9).map(|_| harness.job()).collect()).await;
    let leases = harness.claim(8).await;
    assert_eq!(leases.len(), 8);
    assert_eq!(leases.iter().filter(|lease| lease.job.tenant == other).count(), 1);
}

/// Every job is claimed, however many queues its tenant has: queues that are empty by now do not hide others.
pub async fn jobs_in_thousands_of_queues_are_all_claimed(harness: &StoreHarness) {
    const QUEUES: usize = 1_500;
    let job = |queue: usize| NewJob { queue: name(&format!("q{queue}")), ..harness.job() };
    harness.store().submit((0..QUEUES).map(job).collect()).await;
    let mut queues = HashSet::new();
    while queues.len() < QUEUES {
        let leases = harness.claim(QUEUES / 3).await;
        assert_eq!(leases.len(), QUEUES / 3);
        queues.extend(leases.into_iter().map(|lease| lease.job.queue));
    }
    // Nor do they hide the job that is due next.
    let start = Start::In(MINUTE);
    let later = harness.accept(NewJob { queue: name("later"), start, ..harness.job() }).await;
    assert_eq!(harness.next_due_at().await, Some(later.run_at));
}

/// The store returns when the next job is due, so that the replica knows when to claim again.
pub async fn store_tells_when_the_next_job_is_due(harness: &StoreHarness) {
    assert_eq!(harness.next_due_at().await, None);
    for minutes in [3, 2] {
        harness.accept(NewJob { start: Start::In(MINUTE * minutes), ..harness.job() }).await;
    }
    assert!(harness.claim(5).await.is_empty());
    let claimed_at = harness.now();
    assert_eq!(harness.next_due_at().await, Some(claimed_at.after(MINUTE * 2)));
    harness.advance(MINUTE * 2);
    // The first job has become due since the last claim, which therefore has to be repeated.
    let next = harness.store().next_due_at(claimed_at).await.unwrap();
    assert_eq!(next, Some(harness.now()));
    assert_eq!(harness.claim(5).await.len(), 1);
    assert_eq!(harness.next_due_at().await, Some(harness.now().after(MINUTE)));
}

/// The epoch of each lease is greater than all earlier epochs of the job, however their attempts ended.
pub async fn epochs_rise_with_every_claim(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    for outcome in [failed(), Outcome::Released, Outcome::Sleep { until: harness.now() }] {
        harness.settle(&lease, outcome).await.unwrap();
        let next = harness.claim_one().await;
        assert!(next.epoch > lease.epoch);
        lease = next;
    }
    harness.lose(&lease).await;
    let next = harness.claim_one().await;
    assert!(next.epoch > lease.epoch);
    harness.settle(&next, failed()).await.unwrap();
    harness.store().resume(&TenantId::default(), lease.job.id).await.unwrap();
    assert!(harness.claim_one().await.epoch > next.epoch);
}

/// Attempts are charged at the start, so that a job that crashes its worker is not retried forever.
pub async fn attempt_is_charged_at_claim(harness: &StoreHarness) {
    let lease = harness.running().await;
    assert_eq!(lease.job.attempt, 1);
    harness.settle(&lease, failed()).await.unwrap();
    assert_eq!(harness.record(lease.job.id).await.job.attempt, 1);
    assert_eq!(harness.claim_one().await.job.attempt, 2);
}

/// A released attempt and a sleep are not charged.
pub async fn attempt_that_was_given_back_is_not_charged_again(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    for outcome in [Outcome::Released, Outcome::Sleep { until: harness.now() }, Outcome::Released] {
        harness.settle(&lease, outcome).await.unwrap();
        lease = harness.claim_one().await;
        assert_eq!(lease.job.attempt, 1);
    }
    harness.settle(&lease, failed()).await.unwrap();
    assert_eq!(harness.claim_one().await.job.attempt, 2);
}

/// A job keeps the code version of its first claim, even if another version continues it.
pub async fn code_version_is_that_of_the_first_claim(harness: &StoreHarness) {
    let versioned = |version: &str| Claim {
        kinds: vec![KindCapacity {
            kind: demo(),
            capacity: 1,
            code_version: Some(version.to_owned()),
        }],
        ..harness.want(1)
    };
    harness.pending().await;
    for version in ["v1", "v2"] {
        let lease = harness.store().claim(&versioned(version)).await.unwrap().leases.remove(0);
        assert_eq!(lease.job.code_version.as_deref(), Some("v1"));
        harness.settle(&lease, failed()).await.unwrap();
    }
}

/// The start time of the first attempt never changes.
pub async fn started_at_is_the_start_of_the_first_attempt(harness: &StoreHarness) {
    let lease = harness.running().await;
    let started_at = Some(harness.now());
    harness.settle(&lease, failed()).await.unwrap();
    harness.advance(MINUTE);
    let lease = harness.claim_one().await;
    assert_eq!(lease.job.started_at, started_at);
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(harness.record(lease.job.id).await.job.started_at, started_at);
}
