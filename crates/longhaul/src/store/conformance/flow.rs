//! Limits on what runs at once and on how fast it starts, over all tenants and replicas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, LEASE, TICK, demo, done, failed, failed_for_good, name, tenant};
use crate::job::{Name, Outcome, Rate, TenantId};
use crate::store::{Claim, ClaimResult, FlowLimit, FlowLimits, KindCapacity, Lease, NewJob};

const SECOND: Duration = Duration::from_secs(1);

fn slow() -> Name {
    name("slow")
}

/// The queue `slow` is limited, and nothing else.
fn slow_queue(limit: FlowLimit) -> FlowLimits {
    FlowLimits { queues: vec![(slow(), limit)], ..FlowLimits::default() }
}

fn each_tenant(limit: FlowLimit) -> FlowLimits {
    FlowLimits { tenants: limit, ..FlowLimits::default() }
}

fn demo_kind(jobs: u32) -> FlowLimits {
    FlowLimits { kinds: vec![(demo(), jobs)], ..FlowLimits::default() }
}

fn want(bench: &Bench, limit: usize, limits: &FlowLimits) -> Claim {
    Claim { limits: Arc::new(limits.clone()), ..bench.want(limit) }
}

async fn claimed(bench: &Bench, limit: usize, limits: &FlowLimits) -> ClaimResult {
    bench.store().claim(&want(bench, limit, limits)).await.unwrap()
}

async fn claim(bench: &Bench, limit: usize, limits: &FlowLimits) -> Vec<Lease> {
    claimed(bench, limit, limits).await.leases
}

fn in_queue(bench: &Bench, queue: &Name) -> NewJob {
    NewJob { queue: queue.clone(), ..bench.job() }
}

async fn submit(bench: &Bench, count: usize, job: impl Fn() -> NewJob) {
    for answer in bench.store().submit((0..count).map(|_| job()).collect()).await {
        answer.unwrap();
    }
}

async fn settle_all(bench: &Bench, leases: &[Lease]) {
    for lease in leases {
        bench.settle(lease, done()).await.unwrap();
    }
}

fn count<'a, K: Eq + std::hash::Hash>(
    leases: &'a [Lease],
    of: impl Fn(&'a Lease) -> K,
) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for lease in leases {
        *counts.entry(of(lease)).or_default() += 1;
    }
    counts
}

/// A queue's jobs run side by side up to its limit, whosever they are.
pub async fn queue_limit_counts_all_tenants(bench: &Bench) {
    let limits = slow_queue(FlowLimit::running(3));
    for tenant in ["a", "b"].map(tenant) {
        submit(bench, 3, || NewJob { tenant: tenant.clone(), ..in_queue(bench, &slow()) }).await;
    }
    let leases = claim(bench, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(claim(bench, 10, &limits).await.len(), 1);
    assert_eq!(claim(bench, 10, &limits).await.len(), 0);
    settle_all(bench, &leases).await;
    assert_eq!(claim(bench, 10, &limits).await.len(), 2);
}

/// A kind's jobs run side by side up to its limit, in whatever queue they are.
pub async fn kind_limit_counts_all_queues(bench: &Bench) {
    let limits = demo_kind(3);
    for queue in ["a", "b"].map(name) {
        submit(bench, 3, || in_queue(bench, &queue)).await;
    }
    let leases = claim(bench, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(claim(bench, 10, &limits).await.len(), 1);
    assert_eq!(claim(bench, 10, &limits).await.len(), 0);
    settle_all(bench, &leases[..1]).await;
    assert_eq!(claim(bench, 10, &limits).await.len(), 1);
}

/// Each tenant has as much room as any other, and uses up only its own.
pub async fn tenant_limit_is_each_tenants_own(bench: &Bench) {
    let limits = each_tenant(FlowLimit::running(2));
    for tenant in ["a", "b"].map(tenant) {
        for queue in ["q1", "q2"].map(name) {
            submit(bench, 2, || NewJob { tenant: tenant.clone(), ..in_queue(bench, &queue) }).await;
        }
    }
    let leases = claim(bench, 10, &limits).await;
    let counts = count(&leases, |lease| lease.job.tenant.as_str());
    assert_eq!(counts, HashMap::from([("a", 2), ("b", 2)]));
    let of_a = leases.iter().find(|lease| lease.job.tenant == tenant("a")).unwrap();
    bench.settle(of_a, done()).await.unwrap();
    let next = claim(bench, 10, &limits).await;
    assert_eq!(count(&next, |lease| lease.job.tenant.as_str()), HashMap::from([("a", 1)]));
}

/// The tightest of all limits decides, for each job.
pub async fn every_limit_that_is_about_a_job_holds(bench: &Bench) {
    let limits = FlowLimits {
        kinds: vec![(demo(), 5)],
        queues: vec![(slow(), FlowLimit::running(2))],
        tenants: FlowLimit::running(4),
        ..FlowLimits::default()
    };
    let (a, b) = (tenant("a"), tenant("b"));
    submit(bench, 9, || NewJob { tenant: a.clone(), ..in_queue(bench, &slow()) }).await;
    submit(bench, 9, || bench.job_of(&a)).await;
    submit(bench, 9, || bench.job_of(&b)).await;
    let leases = claim(bench, 20, &limits).await;
    assert_eq!(leases.len(), 5, "the kind's");
    assert!(count(&leases, |lease| lease.job.tenant.clone()).values().all(|jobs| *jobs <= 4));
    assert!(count(&leases, |lease| lease.job.queue.clone()).get(&slow()).is_none_or(|n| *n <= 2));
    assert_eq!(claim(bench, 20, &limits).await.len(), 0);
}

/// However many replicas ask at once, together they get no more than there is room for, and all of it.
pub async fn replicas_at_once_never_exceed_a_limit(bench: &Bench) {
    let limits = FlowLimits {
        kinds: vec![(demo(), 12)],
        queues: vec![(slow(), FlowLimit::running(3))],
        tenants: FlowLimit::running(5),
        ..FlowLimits::default()
    };
    let tenants = ["a", "b", "c"].map(tenant);
    for tenant in &tenants {
        submit(bench, 20, || NewJob { tenant: tenant.clone(), ..in_queue(bench, &slow()) }).await;
        submit(bench, 20, || bench.job_of(tenant)).await;
    }
    for round in 0..3 {
        let claims: Vec<_> = (0..12)
            .map(|n| {
                let store = bench.store();
                let want = Claim { replica: format!("replica-{n}"), ..want(bench, 4, &limits) };
                tokio::spawn(async move { store.claim(&want).await.unwrap().leases })
            })
            .collect();
        let mut leases = Vec::new();
        for claim in claims {
            leases.extend(claim.await.unwrap());
        }
        // A replica may be told "nothing" while others are being served.
        leases.extend(claim(bench, 20, &limits).await);
        assert_eq!(leases.len(), 12, "round {round}");
        let by_tenant = count(&leases, |lease| lease.job.tenant.clone());
        assert!(by_tenant.values().all(|jobs| *jobs <= 5), "round {round}: {by_tenant:?}");
        let in_slow = leases.iter().filter(|lease| lease.job.queue == slow()).count();
        assert!(in_slow <= 3, "round {round}: {in_slow}");
        let settles: Vec<_> = leases
            .into_iter()
            .map(|lease| {
                let (store, end) = (bench.store(), super::bench::settlement(&lease, done()));
                tokio::spawn(async move { store.settle(vec![end]).await.remove(0).unwrap() })
            })
            .collect();
        for settle in settles {
            settle.await.unwrap();
        }
    }
}

/// One tenant may run more or fewer at once than all others, also where those have no limit.
pub async fn tenant_may_have_a_limit_of_its_own(bench: &Bench) {
    let own = |id: &str, jobs| (tenant(id), FlowLimit::running(jobs));
    let all_others = [FlowLimit::running(2), FlowLimit::default()];
    for (round, tenants) in all_others.into_iter().enumerate() {
        let by_tenant = [own("more", 4), own("fewer", 1)].into();
        let limits = FlowLimits { tenants, by_tenant, ..FlowLimits::default() };
        for id in ["more", "fewer", "other"] {
            submit(bench, 6, || NewJob { tenant: tenant(id), ..bench.job() }).await;
        }
        let leases = claim(bench, 20, &limits).await;
        let running = count(&leases, |lease| lease.job.tenant.clone());
        let of = |id: &str| running.get(&tenant(id)).copied().unwrap_or(0);
        let others = if tenants.is_none() { 6 } else { 2 };
        assert_eq!((of("more"), of("fewer"), of("other")), (4, 1, others), "round {round}");
        assert!(claim(bench, 20, &limits).await.is_empty(), "round {round}");
        settle_all(bench, &leases).await;
        settle_all(bench, &claim(bench, 20, &FlowLimits::default()).await).await;
    }
}

/// Room is free again when an attempt ends, however it does.
pub async fn limit_frees_up_however_an_attempt_ends(bench: &Bench) {
    let all = FlowLimits {
        kinds: vec![(demo(), 1)],
        queues: vec![(slow(), FlowLimit::running(1))],
        tenants: FlowLimit::running(1),
        ..FlowLimits::default()
    };
    let hour = Duration::from_hours(1);
    for limits in [slow_queue(FlowLimit::running(1)), demo_kind(1), all] {
        submit(bench, 10, || in_queue(bench, &slow())).await;
        let ends = [
            done(),
            failed(),
            failed_for_good(),
            Outcome::Released,
            Outcome::Sleep { until: bench.now().after(hour) },
            Outcome::Cancelled,
        ];
        for outcome in ends {
            let leases = claim(bench, 5, &limits).await;
            assert_eq!(leases.len(), 1, "before {outcome:?}");
            assert!(claim(bench, 5, &limits).await.is_empty());
            bench.settle(&leases[0], outcome).await.unwrap();
        }
        let lease = claim(bench, 5, &limits).await.remove(0);
        bench.store().cancel(&lease.job.tenant, lease.job.id).await.unwrap();
        assert!(claim(bench, 5, &limits).await.is_empty(), "asked to stop, and still running");
        bench.settle(&lease, Outcome::Cancelled).await.unwrap();
        let lease = claim(bench, 5, &limits).await.remove(0);
        assert!(claim(bench, 5, &limits).await.is_empty());
        bench.lose(&lease).await;
        let lease = claim(bench, 5, &limits).await.remove(0);
        assert!(claim(bench, 5, &limits).await.is_empty());
        bench.settle(&lease, done()).await.unwrap();
        for lease in bench.claim(100).await {
            bench.settle(&lease, done()).await.unwrap();
        }
    }
}

/// Saying it again, because the answer was lost, makes no room a second time. Nor does a worker that
/// was given up.
pub async fn end_that_is_told_twice_gives_back_once(bench: &Bench) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(bench, 9, || in_queue(bench, &slow())).await;
    let leases = claim(bench, 9, &limits).await;
    for _ in 0..3 {
        bench.settle(&leases[0], done()).await.unwrap();
    }
    let next = claim(bench, 9, &limits).await;
    assert_eq!(next.len(), 1);
    bench.lose(&leases[1]).await;
    bench.settle(&leases[1], done()).await.unwrap_err();
    // The other one's lease ran out at the same time, and the sweep took both.
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
}

/// A flood in a queue that is held back does not stand in the way of what is behind it.
pub async fn limited_queue_does_not_hold_back_others_behind_it(bench: &Bench) {
    let minute = Duration::from_mins(1);
    for limit in [FlowLimit::running(1), FlowLimit::rate(Rate::new(1, minute))] {
        let limits = slow_queue(limit);
        submit(bench, 300, || in_queue(bench, &slow())).await;
        bench.advance(SECOND);
        let behind = bench.pending().await.id;
        let leases = claim(bench, 4, &limits).await;
        assert_eq!(leases.len(), 2, "{limit:?}");
        assert!(leases.iter().any(|lease| lease.job.id == behind));
        let behind = bench.pending().await.id;
        let leases = claim(bench, 1, &limits).await;
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].job.id, behind);
        bench.advance(minute * 2);
        bench.store().rescue(1_000).await.unwrap();
        while let [lease] = &bench.claim(1).await[..] {
            bench.settle(lease, done()).await.unwrap();
        }
    }
}

/// A tenant that is held back does not stand in the way of others, however many queues it has.
pub async fn limited_tenant_does_not_hold_back_other_tenants(bench: &Bench) {
    let (big, small) = (tenant("big"), tenant("small"));
    let queued = |n: usize| NewJob {
        tenant: big.clone(),
        queue: name(&format!("queue-{n}")),
        ..bench.job()
    };
    for answer in bench.store().submit((0..1_200).map(queued).collect()).await {
        answer.unwrap();
    }
    bench.advance(SECOND);
    let limits = each_tenant(FlowLimit::running(1));
    assert_eq!(claim(bench, 1, &limits).await.len(), 1);
    for _ in 0..2 {
        bench.accept(bench.job_of(&small)).await;
        let leases = claim(bench, 4, &limits).await;
        assert_eq!(
            count(&leases, |lease| lease.job.tenant.as_str()),
            HashMap::from([("small", 1)])
        );
        settle_all(bench, &leases).await;
    }
}

/// A kind that is held back does not stand in the way of others.
pub async fn limited_kind_does_not_hold_back_other_kinds(bench: &Bench) {
    let other = name("other");
    submit(bench, 300, || bench.job()).await;
    bench.advance(SECOND);
    submit(bench, 3, || NewJob { kind: other.clone(), ..bench.job() }).await;
    let rooms = [demo(), other].map(|kind| KindCapacity { kind, capacity: 9, code_version: None });
    let want = Claim { kinds: rooms.into(), ..want(bench, 9, &demo_kind(1)) };
    let leases = bench.store().claim(&want).await.unwrap().leases;
    let counts = count(&leases, |lease| lease.job.kind.as_str());
    assert_eq!(counts, HashMap::from([("demo", 1), ("other", 3)]));
}

/// What a limited queue leaves of a claim's room goes to others that wait in long lines.
pub async fn room_that_a_limit_leaves_is_filled_by_others(bench: &Bench) {
    for n in 0..40 {
        let tenant = tenant(&format!("tenant-{n}"));
        submit(bench, 3, || NewJob { tenant: tenant.clone(), ..in_queue(bench, &slow()) }).await;
    }
    submit(bench, 30, || bench.job()).await;
    let leases = claim(bench, 20, &slow_queue(FlowLimit::running(1))).await;
    assert_eq!(leases.len(), 20);
    assert_eq!(leases.iter().filter(|lease| lease.job.queue == slow()).count(), 1);
}

/// Jobs start no faster than the rate, and the rate is used up by starting, not by running.
pub async fn rate_is_respected_and_refills_with_time(bench: &Bench) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(3, SECOND * 3)));
    submit(bench, 30, || in_queue(bench, &slow())).await;
    let leases = claim(bench, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    settle_all(bench, &leases).await;
    assert_eq!(claim(bench, 9, &limits).await.len(), 1);
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
    bench.advance_short_of(SECOND);
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
    bench.advance(TICK);
    assert_eq!(claim(bench, 9, &limits).await.len(), 1);
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
    bench.advance(SECOND * 2);
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
}

/// Time in which nothing started is not saved up beyond one burst.
pub async fn burst_is_bounded_by_the_rate(bench: &Bench) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(3, SECOND)));
    submit(bench, 30, || in_queue(bench, &slow())).await;
    assert_eq!(claim(bench, 30, &limits).await.len(), 3);
    bench.advance(Duration::from_hours(5));
    assert_eq!(claim(bench, 30, &limits).await.len(), 3);
}

/// Each tenant starts jobs at its own pace.
pub async fn rate_of_tenants_is_each_tenants_own(bench: &Bench) {
    let limits = each_tenant(FlowLimit::rate(Rate::new(1, SECOND)));
    for tenant in ["a", "b"].map(tenant) {
        submit(bench, 5, || bench.job_of(&tenant)).await;
    }
    for _ in 0..2 {
        let leases = claim(bench, 9, &limits).await;
        let counts = count(&leases, |lease| lease.job.tenant.as_str());
        assert_eq!(counts, HashMap::from([("a", 1), ("b", 1)]));
        assert!(claim(bench, 9, &limits).await.is_empty());
        bench.advance(SECOND);
    }
}

/// Many replicas that ask at once share one rate.
pub async fn replicas_at_once_share_a_rate(bench: &Bench) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(7, Duration::from_hours(1))));
    submit(bench, 40, || in_queue(bench, &slow())).await;
    let claims: Vec<_> = (0..10)
        .map(|_| {
            let (store, want) = (bench.store(), want(bench, 2, &limits));
            tokio::spawn(async move { store.claim(&want).await.unwrap().leases.len() })
        })
        .collect();
    let mut started = 0;
    for claim in claims {
        started += claim.await.unwrap();
    }
    started += claim(bench, 40, &limits).await.len();
    assert_eq!(started, 7);
}

/// The replica learns when to come back for what a rate held back.
pub async fn claim_tells_when_a_rate_lets_the_next_job_start(bench: &Bench) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(2, SECOND * 10)));
    submit(bench, 5, || in_queue(bench, &slow())).await;
    let claimed_first = claimed(bench, 9, &limits).await;
    assert_eq!(claimed_first.leases.len(), 2);
    assert_eq!(claimed_first.next_due_at, Some(bench.now().after(SECOND * 5)));
    bench.advance(SECOND);
    let none = claimed(bench, 9, &limits).await;
    assert!(none.leases.is_empty());
    assert_eq!(none.next_due_at, Some(bench.now().after(SECOND * 4)));
    let minute = Duration::from_mins(1);
    let start = crate::store::Start::In(minute);
    bench.accept(NewJob { start, ..bench.job() }).await;
    bench.advance(SECOND * 4);
    let next = claimed(bench, 9, &limits).await;
    assert_eq!(next.leases.len(), 1);
    assert_eq!(next.next_due_at, Some(bench.now().after(SECOND * 5)));
}

/// A limit counts what was claimed under it. What began without one is not looked for.
pub async fn jobs_that_began_without_a_limit_are_not_counted(bench: &Bench) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(bench, 9, || in_queue(bench, &slow())).await;
    let without = bench.claim(3).await;
    let elsewhere = slow_queue(FlowLimit::rate(Rate::new(9, SECOND)));
    let at_a_rate = claim(bench, 1, &elsewhere).await;
    assert_eq!((without.len(), at_a_rate.len()), (3, 1));
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
    // Nor does their end make room.
    settle_all(bench, &without).await;
    settle_all(bench, &at_a_rate).await;
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
}

/// What runs when a limit is lowered goes on, and nothing starts until it is below the new one.
pub async fn lowered_limit_counts_what_runs(bench: &Bench) {
    submit(bench, 9, || in_queue(bench, &slow())).await;
    let leases = claim(bench, 9, &slow_queue(FlowLimit::running(3))).await;
    let lower = slow_queue(FlowLimit::running(1));
    assert_eq!(leases.len(), 3);
    for lease in &leases {
        assert_eq!(claim(bench, 9, &lower).await.len(), 0);
        bench.settle(lease, done()).await.unwrap();
    }
    assert_eq!(claim(bench, 9, &lower).await.len(), 1);
    assert_eq!(claim(bench, 9, &slow_queue(FlowLimit::running(2))).await.len(), 1);
}

/// Jobs give back what they were counted in, whatever the limits are by then.
pub async fn lifted_limit_leaves_the_counts_right(bench: &Bench) {
    let limits = slow_queue(FlowLimit::running(2));
    submit(bench, 20, || in_queue(bench, &slow())).await;
    let mut leases = claim(bench, 9, &limits).await;
    assert_eq!(leases.len(), 2);
    leases.extend(bench.claim(3).await);
    leases.extend(claim(bench, 2, &demo_kind(9)).await);
    assert_eq!(leases.len(), 7);
    leases.reverse();
    settle_all(bench, &leases).await;
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
}

/// A limit of zero stops what it is about.
pub async fn limit_of_zero_lets_nothing_start(bench: &Bench) {
    submit(bench, 3, || in_queue(bench, &slow())).await;
    let stopped = slow_queue(FlowLimit::running(0));
    let answer = claimed(bench, 9, &stopped).await;
    assert_eq!((answer.leases.len(), answer.next_due_at), (0, None));
    let other = bench.pending().await.id;
    let leases = claim(bench, 9, &stopped).await;
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(claim(bench, 9, &slow_queue(FlowLimit::running(1))).await.len(), 1);
}

/// Whatever held leases before, what is counted outlives it, and is given back once they are swept.
pub async fn counts_survive_reopening(bench: &Bench) {
    let limits = slow_queue(FlowLimit::running(2).and_rate(Rate::new(3, Duration::from_hours(9))));
    submit(bench, 9, || in_queue(bench, &slow())).await;
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
    bench.reopen();
    assert_eq!(claim(bench, 9, &limits).await.len(), 0);
    bench.advance(LEASE + TICK);
    bench.store().rescue(100).await.unwrap();
    assert_eq!(claim(bench, 9, &limits).await.len(), 1, "the rate's last");
    bench.advance(Duration::from_hours(9));
    bench.store().rescue(100).await.unwrap();
    assert_eq!(claim(bench, 9, &limits).await.len(), 2);
}

/// A job that goes from one tenant's hands to another replica's is counted where it runs, once.
pub async fn job_that_is_tried_again_is_counted_once(bench: &Bench) {
    let limits = each_tenant(FlowLimit::running(2));
    submit(bench, 2, || bench.job()).await;
    for _ in 0..2 {
        for lease in claim(bench, 9, &limits).await {
            bench.settle(&lease, failed()).await.unwrap();
        }
    }
    let leases = claim(bench, 9, &limits).await;
    assert_eq!(leases.len(), 2);
    let resumed = &leases[0];
    bench.settle(resumed, failed_for_good()).await.unwrap();
    bench.store().resume(&TenantId::default(), resumed.job.id).await.unwrap();
    bench.pending().await;
    assert_eq!(claim(bench, 9, &limits).await.len(), 1);
}
