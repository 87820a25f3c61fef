//! Acknowledged writes survive a restart, if the store declares durability.

use super::harness::{StoreHarness, done, failed, json, name};
use crate::job::{Status, TenantId};
use crate::store::{NewJob, StoreError};

/// Jobs, steps, results and histories survive reopening.
pub async fn everything_acknowledged_survives_reopening(harness: &StoreHarness) {
    let keyed = NewJob { queue: name("slow"), ..harness.keyed("k") };
    let finished = harness.running_as(keyed).await;
    harness.step(&finished, 0, "a", "1").await.unwrap();
    harness.settle(&finished, done()).await.unwrap();
    let retrying = harness.running().await;
    harness.settle(&retrying, failed()).await.unwrap();
    let (a, b) = (finished.job.id, retrying.job.id);
    let before = (harness.record(a).await, harness.record(b).await);
    if !harness.reopen() {
        return;
    }
    assert_eq!((harness.record(a).await, harness.record(b).await), before);
    let store = harness.store();
    let us = TenantId::default();
    assert_eq!(store.steps(&us, a).await.unwrap()[0].output, json("1"));
    assert_eq!(store.input(&us, a).await.unwrap(), finished.input);
    assert_eq!(store.job_by_key(&us, "k").await.unwrap().job.id, a);
    assert!(!harness.submit(harness.keyed("k")).await.unwrap().created);
    assert_eq!(harness.claim_one().await.job.id, b);
}

/// A worker keeps its lease when the store restarts, and a worker with a lost lease is still fenced off.
pub async fn leases_survive_reopening(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    if !harness.reopen() {
        return;
    }
    assert!(harness.claim(1).await.is_empty());
    assert_eq!(harness.settle(&late, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&current, done()).await.unwrap().status, Status::Completed);
}

/// A paused queue stays paused, and a purged job stays gone.
pub async fn decisions_survive_reopening(harness: &StoreHarness) {
    let us = TenantId::default();
    let gone = harness.ended(done()).await.id;
    harness.store().purge(&us, gone).await.unwrap();
    harness.store().pause_queue(&us, &name("slow"), true).await.unwrap();
    if !harness.reopen() {
        return;
    }
    assert_eq!(harness.try_record(gone).await.unwrap_err(), StoreError::Gone);
    assert!(harness.store().queues(&us).await.unwrap()[0].paused);
    harness.accept(NewJob { queue: name("slow"), ..harness.job() }).await;
    assert!(harness.claim(1).await.is_empty());
}
