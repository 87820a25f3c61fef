//! Quotas on pending jobs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::job::Limits;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Store, StoreError};
use longhaul::{Clock, Engine, JobHandle, SubmitError, TenantId};

use super::{START, echo};
use crate::shared_store::SharedStore;

const MAX: u64 = 5;

/// Starts an engine without slots, so that jobs stay pending.
async fn start(max: u64) -> (Engine, Arc<SharedStore>, Clock) {
    let clock = Clock::manual(START);
    let inner: Arc<dyn Store> = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    let store = SharedStore::new(&inner);
    let engine = Engine::builder()
        .store(Arc::clone(&store) as Arc<dyn Store>)
        .clock(clock.clone())
        .concurrency(0)
        .limits(Limits { pending_per_tenant_max: max, ..Limits::default() })
        .register(echo())
        .start()
        .await
        .unwrap();
    (engine, store, clock)
}

fn is_full(answer: &Result<JobHandle, SubmitError>) -> bool {
    matches!(answer, Err(SubmitError::PendingLimit { .. }))
}

async fn fill(engine: &Engine) -> Vec<JobHandle> {
    let mut jobs = Vec::new();
    for n in 0..MAX {
        jobs.push(engine.submit_raw("echo", "a").key(format!("k{n}")).await.unwrap());
    }
    jobs
}

#[tokio::test]
async fn submission_over_the_pending_quota_is_rejected_and_leaves_its_key_free() {
    let (engine, _, clock) = start(MAX).await;
    let jobs = fill(&engine).await;
    let refused = engine.submit_raw("echo", "a").key("new").await;
    assert!(is_full(&refused));
    let message = "the tenant has reached its limit of 5 pending jobs";
    assert_eq!(refused.unwrap_err().to_string(), message);
    let other = engine.for_tenant(TenantId::new("other").unwrap());
    other.submit_raw("echo", "a").await.unwrap();

    jobs[0].cancel().await.unwrap();
    clock.advance(Duration::from_secs(1));
    assert!(engine.submit_raw("echo", "b").key("new").await.unwrap().created());
    assert!(is_full(&engine.submit_raw("echo", "a").await));
}

#[tokio::test]
async fn known_idempotency_key_returns_its_job_even_if_the_quota_is_used_up() {
    let (engine, ..) = start(MAX).await;
    let jobs = fill(&engine).await;
    let again = engine.submit_raw("echo", "a").key("k0").await.unwrap();
    assert_eq!((again.id(), again.created()), (jobs[0].id(), false));
    let reused = engine.submit_raw("echo", "b").key("k0").await.unwrap_err();
    assert!(matches!(reused, SubmitError::Store(StoreError::KeyReused { .. })), "{reused}");
}

#[tokio::test]
async fn batch_is_accepted_up_to_the_pending_quota() {
    let (engine, ..) = start(MAX).await;
    let keys = ["a", "b", "a", "c", "d", "e", "f", "e"];
    let batch = keys.map(|key| engine.submit_raw("echo", "x").key(key)).into();
    let answers = engine.submit_all(batch).await;
    let created: Vec<Option<bool>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(JobHandle::created)).collect();
    let (new, known) = (Some(true), Some(false));
    assert_eq!(created, [new, new, known, new, new, new, None, known]);
    assert!(is_full(&answers[6]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_concurrent_submissions_never_exceed_the_pending_quota() {
    let (engine, store, _) = start(50).await;
    let submissions: Vec<_> = (0..100)
        .map(|_| {
            tokio::spawn({
                let engine = engine.clone();
                async move { engine.submit_raw("echo", "a").await }
            })
        })
        .collect();
    let mut accepted = 0;
    for submission in submissions {
        let answer = submission.await.unwrap();
        accepted += u64::from(answer.is_ok());
        assert!(answer.is_ok() || is_full(&answer));
    }
    assert_eq!(accepted, 50);
    assert_eq!(store.count_pending(&TenantId::default(), None, 1_000).await.unwrap(), 50);
}

#[tokio::test]
async fn pending_quota_is_counted_in_memory_and_not_in_the_store() {
    let (engine, store, clock) = start(MAX).await;
    let counts = || store.counts.load(Ordering::SeqCst);
    let jobs = fill(&engine).await;
    for _ in 0..10 {
        assert!(is_full(&engine.submit_raw("echo", "a").await));
    }
    assert_eq!(counts(), 1, "one to begin with, and none for a while");
    clock.advance(Duration::from_secs(1));
    for _ in 0..10 {
        assert!(is_full(&engine.submit_raw("echo", "a").await));
    }
    assert_eq!(counts(), 2);
    for job in &jobs {
        job.cancel().await.unwrap();
    }
    clock.advance(Duration::from_secs(1));
    engine.submit_raw("echo", "a").await.unwrap();
    assert_eq!(counts(), 3);
    clock.advance(Duration::from_secs(59));
    engine.submit_raw("echo", "a").await.unwrap();
    assert_eq!(counts(), 3, "there is plenty of room");
    clock.advance(Duration::from_hours(1));
    engine.submit_raw("echo", "a").await.unwrap();
    assert_eq!(counts(), 4, "the quota of an idle tenant is forgotten");
}

#[tokio::test]
async fn repeated_submission_uses_no_pending_quota() {
    let (engine, ..) = start(MAX).await;
    for _ in 0..2 * MAX {
        engine.submit_raw("echo", "a").key("k").await.unwrap();
    }
    for _ in 1..MAX {
        assert!(engine.submit_raw("echo", "a").await.unwrap().created());
    }
    assert!(is_full(&engine.submit_raw("echo", "a").await));
}
