//! Rate limits over all tenants and replicas.

use std::collections::HashMap;
use std::time::Duration;

use super::harness::{StoreHarness, TICK, tenant};
use super::limits::{
    SECOND, claim, claimed, count, each_tenant, in_queue, settle_all, slow, slow_queue, submit,
    want,
};
use crate::job::Rate;
use crate::store::{FlowLimit, NewJob};

/// Jobs start no faster than the rate. Tokens are taken by starts, not by running jobs.
pub async fn rate_is_respected_and_refills_with_time(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(3, SECOND * 3)));
    submit(harness, 30, || in_queue(harness, &slow())).await;
    let leases = claim(harness, 2, &limits).await;
    assert_eq!(leases.len(), 2);
    settle_all(harness, &leases).await;
    assert_eq!(claim(harness, 9, &limits).await.len(), 1);
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
    harness.advance_short_of(SECOND);
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
    harness.advance(TICK);
    assert_eq!(claim(harness, 9, &limits).await.len(), 1);
    assert_eq!(claim(harness, 9, &limits).await.len(), 0);
    harness.advance(SECOND * 2);
    assert_eq!(claim(harness, 9, &limits).await.len(), 2);
}

/// Unused tokens accumulate up to one burst at most.
pub async fn burst_is_bounded_by_the_rate(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(3, SECOND)));
    submit(harness, 30, || in_queue(harness, &slow())).await;
    assert_eq!(claim(harness, 30, &limits).await.len(), 3);
    harness.advance(Duration::from_hours(5));
    assert_eq!(claim(harness, 30, &limits).await.len(), 3);
}

/// Rate limits are per tenant.
pub async fn rate_of_tenants_is_each_tenants_own(harness: &StoreHarness) {
    let limits = each_tenant(FlowLimit::rate(Rate::new(1, SECOND)));
    for tenant in ["a", "b"].map(tenant) {
        submit(harness, 5, || harness.job_of(&tenant)).await;
    }
    for _ in 0..2 {
        let leases = claim(harness, 9, &limits).await;
        let counts = count(&leases, |lease| lease.job.tenant.as_str());
        assert_eq!(counts, HashMap::from([("a", 1), ("b", 1)]));
        assert!(claim(harness, 9, &limits).await.is_empty());
        harness.advance(SECOND);
    }
}

/// Concurrent claims of several replicas share one rate limit.
pub async fn replicas_at_once_share_a_rate(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(7, Duration::from_hours(1))));
    submit(harness, 40, || in_queue(harness, &slow())).await;
    let claims: Vec<_> = (0..10)
        .map(|_| {
            let (store, want) = (harness.store(), want(harness, 2, &limits));
            tokio::spawn(async move { store.claim(&want).await.unwrap().leases.len() })
        })
        .collect();
    let mut started = 0;
    for claim in claims {
        started += claim.await.unwrap();
    }
    started += claim(harness, 40, &limits).await.len();
    assert_eq!(started, 7);
}

/// A claim returns the time at which a rate limit admits the next job.
pub async fn claim_tells_when_a_rate_lets_the_next_job_start(harness: &StoreHarness) {
    let limits = slow_queue(FlowLimit::rate(Rate::new(2, SECOND * 10)));
    submit(harness, 5, || in_queue(harness, &slow())).await;
    let claimed_first = claimed(harness, 9, &limits).await;
    assert_eq!(claimed_first.leases.len(), 2);
    assert_eq!(claimed_first.limited_until, Some(harness.now().after(SECOND * 5)));
    harness.advance(SECOND);
    let none = claimed(harness, 9, &limits).await;
    assert!(none.leases.is_empty());
    assert_eq!(none.limited_until, Some(harness.now().after(SECOND * 4)));
    let minute = Duration::from_mins(1);
    let start = crate::store::Start::In(minute);
    harness.accept(NewJob { start, ..harness.job() }).await;
    harness.advance(SECOND * 4);
    let next = claimed(harness, 9, &limits).await;
    assert_eq!(next.leases.len(), 1);
    assert_eq!(next.limited_until, Some(harness.now().after(SECOND * 5)));
}
