//! Limits over all replicas that share a store.

use std::sync::Arc;
use std::time::Duration;

use longhaul::job::{Name, Rate};
use longhaul::store::conformance::{LEASE, StoreHarness, TICK};
use longhaul::store::faulty::{Fault, FaultPlan, FaultyStore};
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Claim, FlowLimit, FlowLimits, Store};
use longhaul::store::{MaintenanceStore as _, WorkerStore as _};
use longhaul::{Clock, Engine, Kind, Status, TenantId};

use super::{START, Signal, echo, gated, still, until};

fn slow() -> Name {
    Name::new("slow").unwrap()
}

#[tokio::test]
async fn kind_limit_holds_over_two_engines_on_one_store() {
    let clock = Clock::manual(START);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    let (began, go) = (Signal::new(), Signal::new());
    let start = async |replica: &str| {
        Engine::builder()
            .store(Arc::clone(&store))
            .clock(clock.clone())
            .replica(replica)
            .register(gated("gated", &began, &go).running_max(1))
            // Only where its job is awaited: this store sends no notifications to other engines.
            .register(if replica == "other" { echo() } else { Kind::remote("echo") })
            .start()
            .await
            .unwrap()
    };
    let (one, other) = (start("one").await, start("other").await);
    let mut jobs = Vec::new();
    for engine in [&one, &other, &one] {
        jobs.push(engine.submit_raw("gated", &()).await.unwrap());
    }
    for left in (0..3).rev() {
        began.wait().await;
        // Jobs of other kinds continue.
        let done: String = other.submit_raw("echo", "x").await.unwrap().result_as().await.unwrap();
        assert_eq!(done, "x");
        let mut running = 0;
        for job in &jobs {
            running += usize::from(job.record().await.unwrap().job.status == Status::Running);
        }
        assert_eq!(running, 1, "{left} to come");
        go.send();
        // The other engine sees the free capacity at its next poll.
        clock.advance(Duration::from_secs(1));
    }
    tokio::join!(one.stop(), other.stop());
    for job in jobs {
        assert_eq!(job.record().await.unwrap().job.status, Status::Completed);
    }
}

/// Without the due time from the store, the claim loop would poll only after a second.
#[tokio::test]
async fn rate_limited_job_starts_when_a_token_is_available() {
    let half = Duration::from_millis(500);
    let (builder, clock) = still();
    let limit = FlowLimit::rate(Rate::new(1, half));
    let engine = builder.register(echo()).queue_limit(slow(), limit).start().await.unwrap();
    let first = engine.submit_raw("echo", "a").queue("slow").await.unwrap();
    let second = engine.submit_raw("echo", "b").queue("slow").await.unwrap();
    assert_eq!(first.result_as::<String>().await.unwrap(), "a");
    // Queued behind it and not limited: when this is done, the second job has been skipped.
    let other = engine.submit_raw("echo", "c").await.unwrap();
    assert_eq!(other.result_as::<String>().await.unwrap(), "c");
    assert_eq!(second.record().await.unwrap().job.status, Status::Pending);
    clock.advance(half);
    assert_eq!(second.result_as::<String>().await.unwrap(), "b");
}

#[tokio::test]
async fn tenant_limit_leaves_slots_to_other_tenants() {
    let (builder, _clock) = still();
    let (began, go) = (Signal::new(), Signal::new());
    let kind: Kind = gated("gated", &began, &go);
    let limit = FlowLimit::running(1);
    let engine = builder.register(kind).tenant_limit(limit).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(engine.submit_raw("gated", &()).await.unwrap());
    }
    began.wait().await;
    let other = engine.for_tenant(TenantId::new("other").unwrap());
    let other = other.submit_raw("gated", &()).await.unwrap();
    began.wait().await;
    until(&other, Status::Running).await;
    assert_eq!(engine.running(), 2);
    for _ in 0..4 {
        go.send();
    }
    for job in jobs.iter().chain([&other]) {
        assert_eq!(job.result_as::<String>().await.unwrap(), "done");
    }
}

/// A claim whose response is lost has claimed its jobs: they count once, until they are rescued.
#[tokio::test]
async fn claim_whose_response_is_lost_counts_once_against_limits() {
    let clock = StoreHarness::clock();
    let store = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    let faulty = FaultyStore::new(Arc::clone(&store), FaultPlan::none());
    let bench = StoreHarness::new(FaultyStore::new(store, FaultPlan::none()), clock);
    let limits = FlowLimits { tenants: FlowLimit::running(2), ..FlowLimits::default() };
    let want = Claim { limits: Arc::new(limits), ..bench.want(9) };
    for _ in 0..9 {
        bench.pending().await;
    }
    let claim = async || faulty.claim(&want).await.map(|claimed| claimed.leases);
    for fault in [Fault::BeforeCommit, Fault::AfterCommit] {
        faulty.fail_next(fault);
        claim().await.unwrap_err();
    }
    assert!(claim().await.unwrap().is_empty());
    bench.advance(LEASE + TICK);
    // The same holds for a rescue.
    faulty.fail_next(Fault::AfterCommit);
    faulty.rescue(9).await.unwrap_err();
    faulty.rescue(9).await.unwrap();
    assert_eq!(claim().await.unwrap().len(), 2);
    assert!(claim().await.unwrap().is_empty());
}
