//! What was acknowledged outlives the process, where the store declares that it does.

use super::bench::{Bench, done, failed, json, name};
use crate::job::{Status, TenantId};
use crate::store::{NewJob, StoreError};

/// Jobs, steps, results and histories are there again.
pub async fn everything_acknowledged_survives_reopening(bench: &Bench) {
    let keyed = NewJob { queue: name("slow"), ..bench.keyed("k") };
    let finished = bench.running_as(keyed).await;
    bench.step(&finished, 0, "a", "1").await.unwrap();
    bench.settle(&finished, done()).await.unwrap();
    let retrying = bench.running().await;
    bench.settle(&retrying, failed()).await.unwrap();
    let (a, b) = (finished.job.id, retrying.job.id);
    let before = (bench.record(a).await, bench.record(b).await);
    if !bench.reopen() {
        return;
    }
    assert_eq!((bench.record(a).await, bench.record(b).await), before);
    let store = bench.store();
    let us = TenantId::default();
    assert_eq!(store.steps(&us, a).await.unwrap()[0].output, json("1"));
    assert_eq!(store.input(&us, a).await.unwrap(), finished.input);
    assert_eq!(store.job_by_key(&us, "k").await.unwrap().job.id, a);
    assert!(!bench.submit(bench.keyed("k")).await.unwrap().created);
    assert_eq!(bench.claim_one().await.job.id, b);
}

/// A worker whose store restarted goes on with its lease, and a late one is still fenced off.
pub async fn leases_survive_reopening(bench: &Bench) {
    let (late, current) = bench.superseded().await;
    if !bench.reopen() {
        return;
    }
    assert!(bench.claim(1).await.is_empty());
    assert_eq!(bench.settle(&late, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(bench.settle(&current, done()).await.unwrap().status, Status::Completed);
}

/// A paused queue stays paused, a purged job stays gone.
pub async fn decisions_survive_reopening(bench: &Bench) {
    let us = TenantId::default();
    let gone = bench.ended(done()).await.id;
    bench.store().purge(&us, gone).await.unwrap();
    bench.store().pause_queue(&us, &name("slow"), true).await.unwrap();
    if !bench.reopen() {
        return;
    }
    assert_eq!(bench.try_record(gone).await.unwrap_err(), StoreError::Gone);
    assert!(bench.store().queues(&us).await.unwrap()[0].paused);
    bench.accept(NewJob { queue: name("slow"), ..bench.job() }).await;
    assert!(bench.claim(1).await.is_empty());
}
