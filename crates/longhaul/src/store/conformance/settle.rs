//! Settlements: each attempt ends exactly once.

use std::time::Duration;

use super::harness::{StoreHarness, demo, done, failed, failed_for_good, json, settlement};
use crate::job::{JobError, Outcome, Progress, Retention, Status, TenantId};
use crate::store::{Claim, NewJob, Settlement, StoreError};

/// A completed job has its result.
pub async fn completed_job_has_its_result(harness: &StoreHarness) {
    let text = r#"{ "b":1.0, "a":[1,2 ] }"#;
    let lease = harness.running().await;
    harness.advance(Duration::from_secs(2));
    let settled = harness.settle(&lease, Outcome::Completed(json(text))).await.unwrap();
    let record = harness.record(lease.job.id).await;
    assert_eq!((settled.status, record.job.status), (Status::Completed, Status::Completed));
    assert_eq!(settled.version, record.job.version);
    assert_eq!(record.result.unwrap().as_str(), text);
    assert_eq!(record.job.completed_at, Some(harness.now()));
    let expires_at = harness.now().after(Retention::default().completed);
    assert_eq!(record.job.expires_at, Some(expires_at));
    assert_eq!(record.job.error, None);
}

/// `null` is a result.
pub async fn null_is_a_result(harness: &StoreHarness) {
    let job = harness.ended(Outcome::Completed(json("null"))).await;
    assert_eq!(harness.record(job.id).await.result.unwrap().as_str(), "null");
}

/// A job that did not complete has no result.
pub async fn only_a_completed_job_has_a_result(harness: &StoreHarness) {
    let id = harness.pending().await.id;
    assert_eq!(harness.record(id).await.result, None);
    let lease = harness.claim_one().await;
    assert_eq!(harness.record(id).await.result, None);
    harness.settle(&lease, failed_for_good()).await.unwrap();
    assert_eq!(harness.record(id).await.result, None);
    let id = harness.ended(Outcome::Cancelled).await.id;
    assert_eq!(harness.record(id).await.result, None);
}

/// A job with a retryable error is pending again, after the requested delay.
pub async fn retryable_error_puts_the_job_back_in_line(harness: &StoreHarness) {
    let lease = harness.running().await;
    let error = JobError::retryable("line cut").with_code("network");
    let retry_in = Duration::from_secs(4);
    let outcome = Outcome::Failed { error: error.clone(), retry_in };
    let settled = harness.settle(&lease, outcome).await.unwrap();
    let run_at = harness.now().after(retry_in);
    assert_eq!((settled.status, settled.run_at), (Status::Pending, run_at));
    let job = harness.record(lease.job.id).await.job;
    assert_eq!((job.status, job.run_at), (Status::Pending, run_at));
    assert_eq!(job.error, Some(JobError { attempt: 1, ..error }));
    assert_eq!((job.completed_at, job.expires_at), (None, None));
    assert!(harness.claim(1).await.is_empty());
    harness.advance(retry_in);
    assert_eq!(harness.claim_one().await.job.id, lease.job.id);
}

/// The number of attempts is limited.
pub async fn retryable_error_fails_the_job_once_its_attempts_are_used_up(harness: &StoreHarness) {
    harness.accept(NewJob { max_attempts: 2, ..harness.job() }).await;
    let lease = harness.claim_one().await;
    assert_eq!(harness.settle(&lease, failed()).await.unwrap().status, Status::Pending);
    let lease = harness.claim_one().await;
    assert_eq!(harness.settle(&lease, failed()).await.unwrap().status, Status::Failed);
    let job = harness.record(lease.job.id).await.job;
    assert_eq!((job.status, job.attempt), (Status::Failed, 2));
    assert_eq!(job.error.unwrap().attempt, 2);
    assert_eq!(job.expires_at, Some(harness.now().after(Retention::default().failed)));
    assert!(harness.claim(1).await.is_empty());
}

/// A job with a fatal error is not retried.
pub async fn fatal_error_fails_the_job_at_once(harness: &StoreHarness) {
    let lease = harness.running().await;
    let settled = harness.settle(&lease, failed_for_good()).await.unwrap();
    assert_eq!(settled.status, Status::Failed);
    let job = harness.record(lease.job.id).await.job;
    assert_eq!((job.status, job.completed_at), (Status::Failed, Some(harness.now())));
    assert!(!job.error.unwrap().retryable);
    assert!(harness.claim(1).await.is_empty());
}

/// A completed job does not show the error of an earlier attempt.
pub async fn error_of_an_earlier_attempt_is_gone_once_completed(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.settle(&lease, failed()).await.unwrap();
    let lease = harness.claim_one().await;
    assert!(lease.job.error.is_some(), "the error is kept during retries");
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(harness.record(lease.job.id).await.job.error, None);
}

/// A job that a stopping replica releases is due immediately.
pub async fn released_job_is_due_at_once(harness: &StoreHarness) {
    let lease = harness.running().await;
    let settled = harness.settle(&lease, Outcome::Released).await.unwrap();
    assert_eq!((settled.status, settled.run_at), (Status::Pending, harness.now()));
    let other = Claim { replica: "replica-2".to_owned(), ..harness.want(1) };
    let leases = harness.store().claim(&other).await.unwrap().leases;
    assert_eq!((leases[0].job.id, leases[0].job.attempt), (lease.job.id, 1));
    assert_eq!(leases[0].job.error, None);
}

/// A sleeping job frees its worker and is due at the requested time.
pub async fn sleeping_job_goes_on_when_it_said(harness: &StoreHarness) {
    let lease = harness.running().await;
    let nap = Duration::from_hours(3);
    let until = harness.now().after(nap);
    let settled = harness.settle(&lease, Outcome::Sleep { until }).await.unwrap();
    assert_eq!((settled.status, settled.run_at), (Status::Pending, until));
    assert!(harness.claim(1).await.is_empty());
    assert_eq!(harness.next_due_at().await, Some(until));
    harness.advance(nap);
    assert_eq!(harness.claim_one().await.job.attempt, 1);
}

/// A job that waits for a server keeps its attempts and shows its error, however often it is tried.
pub async fn uncharged_failure_keeps_the_attempt_and_shows_its_error(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    let error = JobError::retryable("the server is away").uncharged();
    for _ in 0..lease.job.max_attempts {
        let outcome = Outcome::Failed { error: error.clone(), retry_in: Duration::from_secs(1) };
        let settled = harness.settle(&lease, outcome).await.unwrap();
        assert_eq!(settled.status, Status::Pending);
        assert_eq!(settled.run_at, harness.now().after(Duration::from_secs(1)));
        let job = harness.record(lease.job.id).await.job;
        assert_eq!(job.error.unwrap().message, "the server is away");
        harness.advance(Duration::from_secs(1));
        lease = harness.claim_one().await;
        assert_eq!(lease.job.attempt, 1);
    }
}

/// A handler that stops after a cancellation request ends its job as cancelled.
pub async fn handler_that_stops_ends_its_job_as_cancelled(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    let settled = harness.settle(&lease, Outcome::Cancelled).await.unwrap();
    assert_eq!(settled.status, Status::Cancelled);
    let job = harness.record(lease.job.id).await.job;
    assert_eq!((job.status, job.completed_at), (Status::Cancelled, Some(harness.now())));
    assert_eq!(job.expires_at, Some(harness.now().after(Retention::default().failed)));
}

/// A result wins over a cancellation that came too late.
pub async fn completion_wins_over_a_late_cancel(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    assert_eq!(harness.settle(&lease, done()).await.unwrap().status, Status::Completed);
    assert!(harness.record(lease.job.id).await.result.is_some());
}

/// A job with a cancellation request never returns to its queue, for every outcome.
pub async fn job_asked_to_stop_never_goes_back_in_line(harness: &StoreHarness) {
    let sleep = Outcome::Sleep { until: harness.now() };
    for outcome in [failed(), failed_for_good(), Outcome::Released, sleep] {
        let lease = harness.running().await;
        harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
        let settled = harness.settle(&lease, outcome.clone()).await.unwrap();
        assert_eq!(settled.status, Status::Cancelled, "{outcome:?}");
        assert!(harness.claim(1).await.is_empty());
    }
}

/// A settlement may be repeated when its response was lost.
pub async fn settling_again_changes_nothing_and_is_fine(harness: &StoreHarness) {
    let sleep = Outcome::Sleep { until: harness.now().after(Duration::from_hours(1)) };
    let later =
        Outcome::Failed { error: JobError::retryable("x"), retry_in: Duration::from_hours(1) };
    for outcome in [done(), failed_for_good(), later, Outcome::Cancelled, sleep] {
        let lease = harness.running().await;
        let first = harness.settle(&lease, outcome.clone()).await.unwrap();
        let before = harness.record(lease.job.id).await;
        assert_eq!(harness.settle(&lease, outcome.clone()).await, Ok(first), "{outcome:?}");
        assert_eq!(harness.record(lease.job.id).await, before, "{outcome:?}");
    }
}

/// A repeated settlement must not end the next attempt.
pub async fn settling_again_does_not_touch_the_next_attempt(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.settle(&lease, failed()).await.unwrap();
    let next = harness.claim_one().await;
    let before = harness.record(lease.job.id).await;
    // Success and a lost lease are both allowed, because the worker stops in either case.
    if let Err(error) = harness.settle(&lease, failed()).await {
        assert_eq!(error, StoreError::LeaseLost);
    }
    assert_eq!(harness.record(lease.job.id).await, before);
    harness.settle(&next, done()).await.unwrap();
}

/// A worker cannot write after it settled its attempt.
pub async fn settled_attempt_cannot_write(harness: &StoreHarness) {
    for outcome in [done(), failed(), failed_for_good()] {
        let lease = harness.running().await;
        harness.settle(&lease, outcome).await.unwrap();
        let before = harness.record(lease.job.id).await;
        assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
        assert_eq!(harness.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
        assert_eq!(harness.record(lease.job.id).await, before);
        harness.store().cancel(&TenantId::default(), lease.job.id).await.ok();
    }
}

/// Unreported phases and progress are stored in the settlement's transaction.
pub async fn settlement_carries_its_last_words(harness: &StoreHarness) {
    let lease = harness.running().await;
    let progress = Progress { done: 3, total: Some(3), message: Some("all".to_owned()) };
    let last = Settlement {
        phases: vec!["render".to_owned(), "upload".to_owned()],
        progress: Some(progress.clone()),
        ..settlement(&lease, done())
    };
    harness.settle_as(last).await.unwrap();
    let record = harness.record(lease.job.id).await;
    assert_eq!(record.job.progress, Some(progress));
    let phases: Vec<_> = record.history.iter().filter_map(|event| event.phase.as_deref()).collect();
    let [first, second, ..] = phases[..] else { panic!("two phases, not {phases:?}") };
    assert_eq!((first, second), ("render", "upload"));
    let last = record.history.last().unwrap();
    assert_eq!((last.status, last.version), (Status::Completed, record.job.version));
}

/// A cancellation concurrent with a completion leaves one terminal status.
pub async fn cancel_racing_completion_leaves_one_end(harness: &StoreHarness) {
    for _ in 0..20 {
        let lease = harness.running().await;
        let id = lease.job.id;
        let (store, last) = (harness.store(), settlement(&lease, done()));
        let settling = tokio::spawn(async move { store.settle(vec![last]).await.remove(0) });
        let store = harness.store();
        let cancelling = tokio::spawn(async move { store.cancel(&TenantId::default(), id).await });
        assert_eq!(settling.await.unwrap().unwrap().status, Status::Completed);
        if let Err(error) = cancelling.await.unwrap() {
            assert!(matches!(error, StoreError::WrongStatus { .. }), "{error}");
        }
        let record = harness.record(id).await;
        let ends = record.history.iter().filter(|event| event.status.is_terminal()).count();
        assert_eq!((record.job.status, ends), (Status::Completed, 1));
    }
}

/// A batch of settlements ends each attempt independently.
pub async fn batch_of_settlements_ends_each_attempt(harness: &StoreHarness) {
    harness.store().submit((0..4).map(|_| harness.job()).collect()).await;
    let leases = harness.claim(4).await;
    assert!(leases.iter().all(|lease| lease.job.kind == demo()));
    let outcomes = [done(), failed(), failed_for_good(), Outcome::Cancelled];
    let batch = leases.iter().zip(outcomes).map(|(lease, end)| settlement(lease, end)).collect();
    let statuses: Vec<_> = harness
        .store()
        .settle(batch)
        .await
        .into_iter()
        .map(|settled| settled.unwrap().status)
        .collect();
    let want = [Status::Completed, Status::Pending, Status::Failed, Status::Cancelled];
    assert_eq!(statuses, want);
    for (lease, status) in leases.iter().zip(want) {
        assert_eq!(harness.record(lease.job.id).await.job.status, status);
    }
}

/// A batch with one lost lease ends the other attempts, and reports the lost one alone.
pub async fn batch_with_a_lost_lease_ends_the_others(harness: &StoreHarness) {
    let lost = harness.running().await;
    harness.lose(&lost).await;
    harness.store().submit((0..3).map(|_| harness.job()).collect()).await;
    let leases = harness.claim(4).await;
    let kept = leases.iter().filter(|lease| lease.job.id != lost.job.id);
    let mut batch: Vec<_> = kept.map(|lease| settlement(lease, done())).collect();
    batch.insert(1, settlement(&lost, done()));
    let settled = harness.store().settle(batch.clone()).await;
    for (one, settled) in batch.iter().zip(settled) {
        if one.lease.job == lost.job.id {
            assert_eq!(settled, Err(StoreError::LeaseLost));
            continue;
        }
        assert_eq!(settled.unwrap().status, Status::Completed);
        let ends = harness.record(one.lease.job).await.history;
        assert_eq!(ends.iter().filter(|event| event.status.is_terminal()).count(), 1);
    }
    let attempt = harness.record(lost.job.id).await.job;
    assert_eq!((attempt.status, attempt.attempt), (Status::Running, 2));
}
