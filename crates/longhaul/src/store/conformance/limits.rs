//! Concurrency limits over all tenants and replicas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::harness::{
    LEASE, StoreHarness, TICK, demo, done, failed, failed_for_good, name, tenant,
};
use crate::job::{Name, Outcome, Rate, TenantId};
use crate::store::{Claim, ClaimResult, FlowLimit, FlowLimits, KindCapacity, Lease, NewJob};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn slow() -> Name {
    name("slow")
}

/// Returns limits for the queue `slow` only.
pub(super) fn slow_queue(limit: FlowLimit) -> FlowLimits {
    FlowLimits { queues: vec![(slow(), limit)], ..FlowLimits::default() }
}

pub(super) fn each_tenant(limit: FlowLimit) -> FlowLimits {
    FlowLimits { tenants: limit, ..FlowLimits::default() }
}

fn demo_kind(jobs: u32) -> FlowLimits {
    FlowLimits { kinds: vec![(demo(), jobs)], ..FlowLimits::default() }
}

pub(super) fn want(harness: &StoreHarness, limit: usize, limits: &FlowLimits) -> Claim {
    Claim { limits: Arc::new(limits.clone()), ..harness.want(limit) }
}

pub(super) async fn claimed(
    harness: &StoreHarness,
    limit: usize,
    limits: &FlowLimits,
) -> ClaimResult {
    harness.store().claim(&want(harness, limit, limits)).await.unwrap()
}

pub(super) async fn claim(harness: &StoreHarness, limit: usize, limits: &FlowLimits) -> Vec<Lease> {
    claimed(harness, limit, limits).await.leases
}

pub(super) fn in_queue(harness: &StoreHarness, queue: &Name) -> NewJob {
    NewJob { queue: queue.clone(), ..harness.job() }
}

pub(super) async fn submit(harness: &StoreHarness, count: usize, job: impl Fn() -> NewJob) {
    for answer in harness.store().submit((0..count).map(|_| job()).collect()).await {
        answer.unwrap();
    }
}

pub(super) async fn settle_all(harness: &StoreHarness, leases: &[Lease]) {
    for lease in leases {
        harness.settle(lease, done()).await.unwrap();
    }
}

pub(super) fn count<'a, K: Eq + std::hash::Hash>(
    leases: &'a [Lease],
    of: impl Fn(&'a Lease) -> K,
) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for lease in leases {
        *counts.entry(of(lease)).or_default() += 1;
    }
    counts
}

/// A queue limit counts the jobs of all tenants.
pub async fn queue_limit_counts_all_tenants(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::running(3));
    for tenant in ["a", "b"].map(tenant) {
        submit(harness, 3, || NewJob { tenant: tenant.clone(), ..in_queue(harness, &slow()) })
            .await;
    }
    let leases = claim(harness, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(claim(harness, 10, &limits).await.len(), 1);
    assert_eq!(claim(harness, 10, &limits).await.len(), 0);
    settle_all(harness, &leases).await;
    assert_eq!(claim(harness, 10, &limits).await.len(), 2);
}

/// A kind limit counts the jobs in all queues.
pub async fn kind_limit_counts_all_queues(harness: &StoreHarness) {
    let limits = demo_kind(3);
    for queue in ["a", "b"].map(name) {
        submit(harness, 3, || in_queue(harness, &queue)).await;
    }
    let leases = claim(harness, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(claim(harness, 10, &limits).await.len(), 1);
    assert_eq!(claim(harness, 10, &limits).await.len(), 0);
    settle_all(harness, &leases[..1]).await;
    assert_eq!(claim(harness, 10, &limits).await.len(), 1);
}

/// Each tenant has the same limit, and only its own jobs count against it.
pub async fn tenant_limit_is_each_tenants_own(harness: &StoreHarness) {
    let limits = each_tenant(FlowLimit::running(2));
    for tenant in ["a", "b"].map(tenant) {
        for queue in ["q1", "q2"].map(name) {
            submit(harness, 2, || NewJob { tenant: tenant.clone(), ..in_queue(harness, &queue) })
                .await;
        }
    }
    let leases = claim(harness, 10, &limits).await;
    let counts = count(&leases, |lease| lease.job.tenant.as_str());
    assert_eq!(counts, HashMap::from([("a", 2), ("b", 2)]));
    let of_a = leases.iter().find(|lease| lease.job.tenant == tenant("a")).unwrap();
    harness.settle(of_a, done()).await.unwrap();
    let next = claim(harness, 10, &limits).await;
    assert_eq!(count(&next, |lease| lease.job.tenant.as_str()), HashMap::from([("a", 1)]));
}

/// All limits of a job apply, so that the tightest one decides.
pub async fn every_limit_that_is_about_a_job_holds(harness: &StoreHarness) {
    let limits = FlowLimits {
        kinds: vec![(demo(), 5)],
        queues: vec![(slow(), FlowLimit::running(2))],
        tenants: FlowLimit::running(4),
        ..FlowLimits::default()
    };
    let (a, b) = (tenant("a"), tenant("b"));
    submit(harness, 9, || NewJob { tenant: a.clone(), ..in_queue(harness, &slow()) }).await;
    submit(harness, 9, || harness.job_of(&a)).await;
    submit(harness, 9, || harness.job_of(&b)).await;
    let leases = claim(harness, 20, &limits).await;
    assert_eq!(leases.len(), 5, "the limit of the kind");
    assert!(count(&leases, |lease| lease.job.tenant.clone()).values().all(|jobs| *jobs <= 4));
    assert!(count(&leases, |lease| lease.job.queue.clone()).get(&slow()).is_none_or(|n| *n <= 2));
    assert_eq!(claim(harness, 20, &limits).await.len(), 0);
}

/// Concurrent claims of several replicas start exactly as many jobs as a limit allows.
pub async fn replicas_at_once_never_exceed_a_limit(harness: &StoreHarness) {
    let limits = FlowLimits {
        kinds: vec![(demo(), 12)],
        queues: vec![(slow(), FlowLimit::running(3))],
        tenants: FlowLimit::running(5),
        ..FlowLimits::default()
    };
    let tenants = ["a", "b", "c"].map(tenant);
    for tenant in &tenants {
        submit(harness, 20, || NewJob { tenant: tenant.clone(), ..in_queue(harness, &slow()) })
            .await;
        submit(harness, 20, || harness.job_of(tenant)).await;
    }
    for round in 0..3 {
        let claims: Vec<_> = (0..12)
            .map(|n| {
                let store = harness.store();
                let want = Claim { replica: format!("replica-{n}"), ..want(harness, 4, &limits) };
                tokio::spawn(async move { store.claim(&want).await.unwrap().leases })
            })
            .collect();
        let mut leases = Vec::new();
        for claim in claims {
            leases.extend(claim.await.unwrap());
        }
        // A concurrent claim may return nothing while others hold locks.
        leases.extend(claim(harness, 20, &limits).await);
        assert_eq!(leases.len(), 12, "round {round}");
        let by_tenant = count(&leases, |lease| lease.job.tenant.clone());
        assert!(by_tenant.values().all(|jobs| *jobs <= 5), "round {round}: {by_tenant:?}");
        let in_slow = leases.iter().filter(|lease| lease.job.queue == slow()).count();
        assert!(in_slow <= 3, "round {round}: {in_slow}");
        let settles: Vec<_> = leases
            .into_iter()
            .map(|lease| {
                let (store, end) = (harness.store(), super::harness::settlement(&lease, done()));
                tokio::spawn(async move { store.settle(vec![end]).await.remove(0).unwrap() })
            })
            .collect();
        for settle in settles {
            settle.await.unwrap();
        }
    }
}

/// A tenant may have a higher or lower limit than the others, even if the others have none.
pub async fn tenant_may_have_a_limit_of_its_own(harness: &StoreHarness) {
    let own = |id: &str, jobs| (tenant(id), FlowLimit::running(jobs));
    let all_others = [FlowLimit::running(2), FlowLimit::default()];
    for (round, tenants) in all_others.into_iter().enumerate() {
        let by_tenant = [own("more", 4), own("fewer", 1)].into();
        let limits = FlowLimits { tenants, by_tenant, ..FlowLimits::default() };
        for id in ["more", "fewer", "other"] {
            submit(harness, 6, || NewJob { tenant: tenant(id), ..harness.job() }).await;
        }
        let leases = claim(harness, 20, &limits).await;
        let running = count(&leases, |lease| lease.job.tenant.clone());
        let of = |id: &str| running.get(&tenant(id)).copied().unwrap_or(0);
        let others = if tenants.is_none() { 6 } else { 2 };
        assert_eq!((of("more"), of("fewer"), of("other")), (4, 1, others), "round {round}");
        assert!(claim(harness, 20, &limits).await.is_empty(), "round {round}");
        settle_all(harness, &leases).await;
        settle_all(harness, &claim(harness, 20, &FlowLimits::default()).await).await;
    }
}

/// The end of an attempt frees its capacity, for every outcome.
pub async fn limit_frees_up_however_an_attempt_ends(harness: &StoreHarness) {
    let all = FlowLimits {
        kinds: vec![(demo(), 1)],
        queues: vec![(slow(), FlowLimit::running(1))],
        tenants: FlowLimit::running(1),
        ..FlowLimits::default()
    };
    let hour = Duration::from_hours(1);
    for limits in [slow_queue(FlowLimit::running(1)), demo_kind(1), all] {
        submit(harness, 10, || in_queue(harness, &slow())).await;
        let ends = [
            done(),
            failed(),
            failed_for_good(),
            Outcome::Released,
            Outcome::Sleep { until: harness.now().after(hour) },
            Outcome::Cancelled,
        ];
        for outcome in ends {
            let leases = claim(harness, 5, &limits).await;
            assert_eq!(leases.len(), 1, "before {outcome:?}");
            assert!(claim(harness, 5, &limits).await.is_empty());
            harness.settle(&leases[0], outcome).await.unwrap();
        }
        let lease = claim(harness, 5, &limits).await.remove(0);
        harness.store().cancel(&lease.job.tenant, lease.job.id).await.unwrap();
        assert!(claim(harness, 5, &limits).await.is_empty(), "cancelled, but still running");
        harness.settle(&lease, Outcome::Cancelled).await.unwrap();
        let lease = claim(harness, 5, &limits).await.remove(0);
        assert!(claim(harness, 5, &limits).await.is_empty());
        harness.lose(&lease).await;
        let lease = claim(harness, 5, &limits).await.remove(0);
        assert!(claim(harness, 5, &limits).await.is_empty());
        harness.settle(&lease, done()).await.unwrap();
        for lease in harness.claim(100).await {
            harness.settle(&lease, done()).await.unwrap();
        }
    }
}

/// A repeated settlement, whose first response was lost, frees capacity once. A settlement with a lost lease
/// frees none.
pub async fn end_that_is_told_twice_gives_back_once(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(harness, 9, || in_queue(harness, &slow())).await;
    let leases = claim(harness, 9, &limits).await;
    for _ in 0..3 {
        harness.settle(&leases[0], done()).await.unwrap();
    }
    let next = claim(harness, 9, &limits).await;
    assert_eq!(next.len(), 1);
    harness.lose(&leases[1]).await;
    harness.settle(&leases[1], done()).await.unwrap_err();
    // The other lease expired at the same time, so one rescue ended both attempts.
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
}

/// A long queue at its limit does not delay other queues behind it.
pub async fn limited_queue_does_not_hold_back_others_behind_it(harness: &StoreHarness) {
    let minute = Duration::from_mins(1);
    for limit in [FlowLimit::running(1), FlowLimit::rate(Rate::new(1, minute))] {
        let limits = slow_queue(limit);
        submit(harness, 300, || in_queue(harness, &slow())).await;
        harness.advance(SECOND);
        let behind = harness.pending().await.id;
        let leases = claim(harness, 4, &limits).await;
        assert_eq!(leases.len(), 2, "{limit:?}");
        assert!(leases.iter().any(|lease| lease.job.id == behind));
        let behind = harness.pending().await.id;
        let leases = claim(harness, 1, &limits).await;
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].job.id, behind);
        harness.advance(minute * 2);
        harness.store().rescue(1_000).await.unwrap();
        while let [lease] = &harness.claim(1).await[..] {
            harness.settle(lease, done()).await.unwrap();
        }
    }
}

/// A tenant at its limit does not delay other tenants, regardless of the number of its queues.
pub async fn limited_tenant_does_not_hold_back_other_tenants(harness: &StoreHarness) {
    let (big, small) = (tenant("big"), tenant("small"));
    let queued = |n: usize| NewJob {
        tenant: big.clone(),
        queue: name(&format!("queue-{n}")),
        ..harness.job()
    };
    for answer in harness.store().submit((0..1_200).map(queued).collect()).await {
        answer.unwrap();
    }
    harness.advance(SECOND);
    let limits = each_tenant(FlowLimit::running(1));
    assert_eq!(claim(harness, 1, &limits).await.len(), 1);
    for _ in 0..2 {
        harness.accept(harness.job_of(&small)).await;
        let leases = claim(harness, 4, &limits).await;
        assert_eq!(
            count(&leases, |lease| lease.job.tenant.as_str()),
            HashMap::from([("small", 1)])
        );
        settle_all(harness, &leases).await;
    }
}

/// A kind at its limit does not delay other kinds.
pub async fn limited_kind_does_not_hold_back_other_kinds(harness: &StoreHarness) {
    let other = name("other");
    submit(harness, 300, || harness.job()).await;
    harness.advance(SECOND);
    submit(harness, 3, || NewJob { kind: other.clone(), ..harness.job() }).await;
    let rooms = [demo(), other].map(|kind| KindCapacity { kind, capacity: 9, code_version: None });
    let want = Claim { kinds: rooms.into(), ..want(harness, 9, &demo_kind(1)) };
    let leases = harness.store().claim(&want).await.unwrap().leases;
    let counts = count(&leases, |lease| lease.job.kind.as_str());
    assert_eq!(counts, HashMap::from([("demo", 1), ("other", 3)]));
}

/// Capacity of a claim that a limited queue cannot use goes to other queues.
pub async fn room_that_a_limit_leaves_is_filled_by_others(harness: &StoreHarness) {
    for n in 0..40 {
        let tenant = tenant(&format!("tenant-{n}"));
        submit(harness, 3, || NewJob { tenant: tenant.clone(), ..in_queue(harness, &slow()) })
            .await;
    }
    submit(harness, 30, || harness.job()).await;
    let leases = claim(harness, 20, &slow_queue(FlowLimit::running(1))).await;
    assert_eq!(leases.len(), 20);
    assert_eq!(leases.iter().filter(|lease| lease.job.queue == slow()).count(), 1);
}

/// A limit counts only jobs that were claimed under it.
pub async fn jobs_that_began_without_a_limit_are_not_counted(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(harness, 9, || in_queue(harness, &slow())).await;
    let without = harness.claim(3).await;
    let elsewhere = slow_queue(FlowLimit::rate(Rate::new(9, SECOND)));
    let at_a_rate = claim(harness, 1, &elsewhere).await;
    assert_eq!((without.len(), at_a_rate.len()), (3, 1));
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
    // Their end frees no capacity either.
    settle_all(harness, &without).await;
    settle_all(harness, &at_a_rate).await;
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
}

/// After a limit is lowered, running jobs continue; none starts until their number is below the new limit.
pub async fn lowered_limit_counts_what_runs(harness: &StoreHarness) {
    submit(harness, 9, || in_queue(harness, &slow())).await;
    let leases = claim(harness, 9, &slow_queue(FlowLimit::running(3))).await;
    let lower = slow_queue(FlowLimit::running(1));
    assert_eq!(leases.len(), 3);
    for lease in &leases {
        assert_eq!(claim(harness, 9, &lower).await.len(), 0);
        harness.settle(lease, done()).await.unwrap();
    }
    assert_eq!(claim(harness, 9, &lower).await.len(), 1);
    assert_eq!(claim(harness, 9, &slow_queue(FlowLimit::running(2))).await.len(), 1);
}

/// The end of an attempt decrements the counters that include it, even if the limits have changed.
pub async fn lifted_limit_leaves_the_counts_right(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(harness, 20, || in_queue(harness, &slow())).await;
    let mut leases = claim(harness, 9, &limits).await;
    assert_eq!(leases.len(), 2);
    leases.extend(harness.claim(3).await);
    leases.extend(claim(harness, 2, &demo_kind(9)).await);
    assert_eq!(leases.len(), 7);
    leases.reverse();
    settle_all(harness, &leases).await;
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
}

/// A limit of zero admits no job.
pub async fn limit_of_zero_lets_nothing_start(harness: &StoreHarness) {
    submit(harness, 3, || in_queue(harness, &slow())).await;
    let stopped = slow_queue(FlowLimit::running(0));
    let answer = claimed(harness, 9, &stopped).await;
    assert_eq!((answer.leases.len(), answer.limited_until), (0, None));
    let other = harness.pending().await.id;
    let leases = claim(harness, 9, &stopped).await;
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(claim(harness, 9, &slow_queue(FlowLimit::running(1))).await.len(), 1);
}

/// Counters survive reopening, and are decremented when the leases are rescued.
pub async fn counts_survive_reopening(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::running(2).and_rate(Rate::new(3, Duration::from_hours(9))));
    submit(harness, 9, || in_queue(harness, &slow())).await;
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
    harness.reopen();
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
    harness.advance(LEASE + TICK);
    harness.store().rescue(100).await.unwrap();
    assert_eq!(claim(harness, 9, &limits).await.len(), 1, "the last token of the rate");
    harness.advance(Duration::from_hours(9));
    harness.store().rescue(100).await.unwrap();
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
}

/// A retried or resumed job is counted once.
pub async fn job_that_is_tried_again_is_counted_once(harness: &StoreHarness) {
    let limits = each_tenant(FlowLimit::running(2));
    submit(harness, 2, || harness.job()).await;
    for _ in 0..2 {
        for lease in claim(harness, 9, &limits).await {
            harness.settle(&lease, failed()).await.unwrap();
        }
    }
    let leases = claim(harness, 9, &limits).await;
    assert_eq!(leases.len(), 2);
    let resumed = &leases[0];
    harness.settle(resumed, failed_for_good()).await.unwrap();
    harness.store().resume(&TenantId::default(), resumed.job.id).await.unwrap();
    harness.pending().await;
    assert_eq!(claim(harness, 9, &limits).await.len(), 1);
}
