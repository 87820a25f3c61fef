//! Tenant isolation: another tenant's job is indistinguishable from an unknown one.

use super::harness::{LEASE, StoreHarness, done, failed_for_good, tenant};
use crate::job::{JobId, TenantId};
use crate::store::{Filter, Lease, NewJob, PageRequest, Renewal, StoreError};

/// Returns the results of all calls by id that `asker` makes about `id`.
async fn answers(
    harness: &StoreHarness,
    asker: &TenantId,
    id: JobId,
) -> Vec<Result<(), StoreError>> {
    let store = harness.store();
    vec![
        store.job(asker, id).await.map(drop),
        store.input(asker, id).await.map(drop),
        store.steps(asker, id).await.map(drop),
        store.cancel(asker, id).await.map(drop),
        store.resume(asker, id).await.map(drop),
        store.fork(asker, id, harness.id(), None).await.map(drop),
        store.fork(asker, id, harness.id(), Some("a")).await.map(drop),
        store.purge(asker, id).await,
    ]
}

/// Returns jobs of the default tenant that are pending, running, completed, failed and gone.
async fn one_of_each(harness: &StoreHarness) -> Vec<JobId> {
    let gone = harness.ended(done()).await.id;
    harness.store().purge(&TenantId::default(), gone).await.unwrap();
    let completed = harness.ended(done()).await.id;
    let failed = harness.ended(failed_for_good()).await.id;
    let running = harness.running().await;
    harness.step(&running, 0, "a", "1").await.unwrap();
    vec![gone, completed, failed, running.job.id, harness.accept(harness.keyed("k")).await.id]
}

/// An id of another tenant is reported as not found, regardless of its job's status.
pub async fn other_tenants_see_not_found_whatever_they_ask(harness: &StoreHarness) {
    let ids = one_of_each(harness).await;
    let other = tenant("other");
    let unknown = answers(harness, &other, harness.id()).await;
    assert!(unknown.iter().all(|answer| answer == &Err(StoreError::NotFound)));
    for id in ids {
        let before = harness.try_record(id).await;
        assert_eq!(answers(harness, &other, id).await, unknown);
        assert_eq!(harness.try_record(id).await, before, "no call changes the job");
    }
}

/// Lists, idempotency keys and queues contain only the tenant's own jobs.
pub async fn other_tenants_see_nothing_in_lists(harness: &StoreHarness) {
    one_of_each(harness).await;
    let (store, other) = (harness.store(), tenant("other"));
    let page = PageRequest::new(10, None);
    assert!(store.jobs(&other, &Filter::default(), &page).await.unwrap().jobs.is_empty());
    assert!(store.queues(&other).await.unwrap().is_empty());
    assert_eq!(store.job_by_key(&other, "k").await.unwrap_err(), StoreError::NotFound);
}

/// A cursor may be another tenant's id, and reveals nothing about it.
pub async fn page_may_start_at_a_foreign_id(harness: &StoreHarness) {
    let ours = harness.pending().await.id;
    let theirs = harness.accept(harness.job_of(&tenant("other"))).await.id;
    let page = PageRequest::new(10, Some(theirs));
    let us = TenantId::default();
    let page = harness.store().jobs(&us, &Filter::default(), &page).await.unwrap();
    assert_eq!(page.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), [ours]);
}

/// A lease with the wrong tenant is lost.
pub async fn lease_under_another_tenant_is_lost(harness: &StoreHarness) {
    let mut lease: Lease = harness.running().await;
    let id = lease.job.id;
    let before = harness.record(id).await;
    lease.job.tenant = tenant("other");
    let renewals = harness.store().renew(vec![lease.to_ref()], LEASE).await.unwrap();
    assert_eq!(renewals, [Renewal::Lost]);
    assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&lease, 0, "a", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&lease, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(harness.record(id).await, before);
}

/// Each claimed job names its tenant.
pub async fn claims_name_the_tenant_of_each_job(harness: &StoreHarness) {
    let tenants = ["a", "b"].map(tenant);
    for (n, tenant) in tenants.iter().enumerate() {
        let job = NewJob { tenant: tenant.clone(), ..harness.job_with(&n.to_string()) };
        harness.accept(job).await;
    }
    for lease in harness.claim(2).await {
        let tenant = &lease.job.tenant;
        let record = harness.store().job(tenant, lease.job.id).await.unwrap();
        assert_eq!(&record.job.tenant, tenant);
        assert_eq!(harness.store().input(tenant, lease.job.id).await.unwrap(), lease.input);
    }
}
