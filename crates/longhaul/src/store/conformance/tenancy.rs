//! Another tenant's job answers exactly as one that never was.

use super::bench::{Bench, LEASE, done, failed_for_good, tenant};
use crate::job::{JobId, TenantId};
use crate::store::{Filter, Lease, NewJob, PageRequest, Renewal, StoreError};

/// What every call by id says of `id` to `asker`.
async fn answers(bench: &Bench, asker: &TenantId, id: JobId) -> Vec<Result<(), StoreError>> {
    let store = bench.store();
    vec![
        store.job(asker, id).await.map(drop),
        store.input(asker, id).await.map(drop),
        store.steps(asker, id).await.map(drop),
        store.cancel(asker, id).await.map(drop),
        store.resume(asker, id).await.map(drop),
        store.fork(asker, id, bench.id(), None).await.map(drop),
        store.fork(asker, id, bench.id(), Some("a")).await.map(drop),
        store.purge(asker, id).await,
    ]
}

/// Jobs of the default tenant that are pending, running, completed, failed and gone.
async fn one_of_each(bench: &Bench) -> Vec<JobId> {
    let gone = bench.ended(done()).await.id;
    bench.store().purge(&TenantId::default(), gone).await.unwrap();
    let completed = bench.ended(done()).await.id;
    let failed = bench.ended(failed_for_good()).await.id;
    let running = bench.running().await;
    bench.step(&running, 0, "a", "1").await.unwrap();
    vec![gone, completed, failed, running.job.id, bench.accept(bench.keyed("k")).await.id]
}

/// An id of another tenant is an unknown id, whatever state its job is in.
pub async fn other_tenants_see_not_found_whatever_they_ask(bench: &Bench) {
    let ids = one_of_each(bench).await;
    let other = tenant("other");
    let unknown = answers(bench, &other, bench.id()).await;
    assert!(unknown.iter().all(|answer| answer == &Err(StoreError::NotFound)));
    for id in ids {
        let before = bench.try_record(id).await;
        assert_eq!(answers(bench, &other, id).await, unknown);
        assert_eq!(bench.try_record(id).await, before, "and nothing changed");
    }
}

/// Lists, keys and queues hold a tenant's own jobs only.
pub async fn other_tenants_see_nothing_in_lists(bench: &Bench) {
    one_of_each(bench).await;
    let (store, other) = (bench.store(), tenant("other"));
    let page = PageRequest { limit: 10, before: None };
    assert!(store.jobs(&other, &Filter::default(), &page).await.unwrap().jobs.is_empty());
    assert!(store.queues(&other).await.unwrap().is_empty());
    assert_eq!(store.job_by_key(&other, "k").await.unwrap_err(), StoreError::NotFound);
}

/// A tenant's list may start at another tenant's id without learning from it.
pub async fn page_may_start_at_a_foreign_id(bench: &Bench) {
    let ours = bench.pending().await.id;
    let theirs = bench.accept(bench.job_of(&tenant("other"))).await.id;
    let page = PageRequest { limit: 10, before: Some(theirs) };
    let us = TenantId::default();
    let page = bench.store().jobs(&us, &Filter::default(), &page).await.unwrap();
    assert_eq!(page.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), [ours]);
}

/// A worker that names the wrong tenant holds nothing.
pub async fn lease_under_another_tenant_is_lost(bench: &Bench) {
    let mut lease: Lease = bench.running().await;
    let id = lease.job.id;
    let before = bench.record(id).await;
    lease.job.tenant = tenant("other");
    let renewals = bench.store().renew(vec![lease.to_ref()], LEASE).await.unwrap();
    assert_eq!(renewals, [Renewal::Lost]);
    assert_eq!(bench.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.step(&lease, 0, "a", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.settle(&lease, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(bench.record(id).await, before);
}

/// What comes back names its owner.
pub async fn claims_name_the_tenant_of_each_job(bench: &Bench) {
    let tenants = ["a", "b"].map(tenant);
    for (n, tenant) in tenants.iter().enumerate() {
        let job = NewJob { tenant: tenant.clone(), ..bench.job_with(&n.to_string()) };
        bench.accept(job).await;
    }
    for lease in bench.claim(2).await {
        let tenant = &lease.job.tenant;
        let record = bench.store().job(tenant, lease.job.id).await.unwrap();
        assert_eq!(&record.job.tenant, tenant);
        assert_eq!(bench.store().input(tenant, lease.job.id).await.unwrap(), lease.input);
    }
}
