//! Queues: counts of jobs, pausing and resuming.

use std::time::Duration;

use super::harness::{StoreHarness, done, failed, failed_for_good, name, tenant};
use crate::job::{Name, TenantId};
use crate::store::{NewJob, QueueState, QueueTotal, Start};

fn us() -> TenantId {
    TenantId::default()
}

async fn queues(harness: &StoreHarness) -> Vec<QueueState> {
    let mut queues = harness.store().queues(&us()).await.unwrap();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    queues
}

/// A queue reports its pending and running jobs and the due time of its oldest due job.
pub async fn queue_counts_what_waits_and_what_runs(harness: &StoreHarness) {
    assert!(queues(harness).await.is_empty());
    let minute = Duration::from_mins(1);
    let oldest = harness.running().await;
    harness.pending().await;
    let due_at = harness.now();
    harness.accept(NewJob { start: Start::In(minute), ..harness.job() }).await;
    harness.advance(minute / 2);
    harness.pending().await;
    let state = QueueState {
        name: Name::default_queue(),
        paused: false,
        pending: 3,
        running: 1,
        oldest_due_at: Some(due_at),
    };
    assert_eq!(queues(harness).await, std::slice::from_ref(&state));
    harness.settle(&oldest, done()).await.unwrap();
    assert_eq!(queues(harness).await, [QueueState { running: 0, ..state }]);
}

/// A job that is not due counts as pending but not as waiting.
pub async fn job_that_is_not_due_does_not_age_its_queue(harness: &StoreHarness) {
    let hour = Duration::from_hours(1);
    harness.accept(NewJob { start: Start::In(hour), ..harness.job() }).await;
    let before = &queues(harness).await[0];
    assert_eq!((before.pending, before.oldest_due_at), (1, None));
    harness.advance(hour);
    assert_eq!(queues(harness).await[0].oldest_due_at, Some(harness.now()));
}

/// Each queue has its own counts, without finished jobs.
pub async fn queues_are_counted_by_themselves(harness: &StoreHarness) {
    harness.ended(done()).await;
    for queue in ["b", "a", "b"] {
        harness.accept(NewJob { queue: name(queue), ..harness.job() }).await;
    }
    let counts: Vec<_> =
        queues(harness).await.into_iter().map(|q| (q.name.to_string(), q.pending)).collect();
    assert_eq!(counts, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

/// No job starts from a paused queue; running jobs continue.
pub async fn paused_queue_is_not_claimed_from(harness: &StoreHarness) {
    let (store, slow) = (harness.store(), name("slow"));
    let running = harness.running_as(NewJob { queue: slow.clone(), ..harness.job() }).await;
    store.pause_queue(&us(), &slow, true).await.unwrap();
    let paused =
        harness.accept(NewJob { queue: slow.clone(), priority: 100, ..harness.job() }).await;
    let free = harness.pending().await;
    let claimed = harness.claim(10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].job.id, free.id);
    harness.settle(&running, done()).await.unwrap();
    store.pause_queue(&us(), &slow, false).await.unwrap();
    assert_eq!(harness.claim_one().await.job.id, paused.id);
}

/// A paused queue is listed even if it is empty, so that an operator can resume it.
pub async fn paused_queue_is_listed_while_empty(harness: &StoreHarness) {
    let slow = name("slow");
    harness.store().pause_queue(&us(), &slow, true).await.unwrap();
    let state = QueueState {
        name: slow.clone(),
        paused: true,
        pending: 0,
        running: 0,
        oldest_due_at: None,
    };
    assert_eq!(queues(harness).await, [state]);
    harness.store().pause_queue(&us(), &slow, false).await.unwrap();
    assert!(queues(harness).await.is_empty());
}

/// Pausing a paused queue changes nothing.
pub async fn pausing_twice_is_fine(harness: &StoreHarness) {
    let queue = Name::default_queue();
    harness.pending().await;
    for paused in [true, true, false, false] {
        harness.store().pause_queue(&us(), &queue, paused).await.unwrap();
        assert_eq!(queues(harness).await[0].paused, paused);
    }
    harness.claim_one().await;
}

/// Queues with the same name belong to separate tenants.
pub async fn pausing_stops_one_tenant_only(harness: &StoreHarness) {
    let other = tenant("other");
    harness.store().pause_queue(&other, &Name::default_queue(), true).await.unwrap();
    harness.accept(harness.job_of(&other)).await;
    let ours = harness.pending().await;
    let claimed = harness.claim(10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].job.id, ours.id);
    assert!(!queues(harness).await.iter().any(|queue| queue.paused));
}

/// Totals sum a queue's jobs over all tenants, without outboxes and finished jobs, the longest queue first.
pub async fn queue_totals_sum_over_all_tenants(harness: &StoreHarness) {
    let (store, slow, other) = (harness.store(), name("slow"), tenant("other"));
    assert!(store.queue_totals(10).await.unwrap().is_empty());
    harness.ended(done()).await;
    harness.running().await;
    harness.running_as(harness.job_of(&other)).await;
    let oldest = harness.pending().await;
    harness.advance(Duration::from_secs(1));
    harness.accept(harness.job_of(&other)).await;
    let start = Start::In(Duration::from_hours(1));
    harness.accept(NewJob { start, ..harness.job_of(&tenant("third")) }).await;
    let in_slow = harness.accept(NewJob { queue: slow.clone(), ..harness.job_of(&other) }).await;
    harness.accept(NewJob { queue: slow.clone(), ..harness.job_of(&other.outbox()) }).await;
    for (tenant, queue) in [(&us(), &slow), (&other, &slow), (&other, &name("empty"))] {
        store.pause_queue(tenant, queue, true).await.unwrap();
    }
    let total = |name, paused, pending, running, oldest_due_at| QueueTotal {
        name,
        paused,
        pending,
        running,
        oldest_due_at,
    };
    let totals = [
        total(Name::default_queue(), 0, 3, 2, Some(oldest.run_at)),
        total(slow, 2, 1, 0, Some(in_slow.run_at)),
        total(name("empty"), 1, 0, 0, None),
    ];
    assert_eq!(store.queue_totals(10).await.unwrap(), totals);
    assert_eq!(store.queue_totals(2).await.unwrap(), totals[..2]);
}

/// A long paused queue does not delay jobs behind it.
pub async fn long_paused_queue_does_not_hide_what_is_behind_it(harness: &StoreHarness) {
    let slow = name("slow");
    harness.store().pause_queue(&us(), &slow, true).await.unwrap();
    let flood = (0..300).map(|_| NewJob { queue: slow.clone(), ..harness.job() }).collect();
    harness.store().submit(flood).await;
    harness.advance(Duration::from_secs(1));
    let id = harness.pending().await.id;
    assert_eq!(harness.claim_one().await.job.id, id);
}

/// Pausing changes neither the order nor the due time of a job.
pub async fn resumed_queue_is_back_where_it_would_have_been(harness: &StoreHarness) {
    let (store, slow, minute) = (harness.store(), name("slow"), Duration::from_mins(1));
    let first = harness.accept(NewJob { queue: slow.clone(), ..harness.job() }).await;
    harness.advance(Duration::from_secs(1));
    let second = harness.pending().await;
    harness.advance(Duration::from_secs(1));
    store.pause_queue(&us(), &slow, true).await.unwrap();
    let urgent =
        harness.accept(NewJob { queue: slow.clone(), priority: 10, ..harness.job() }).await;
    let start = Start::In(minute);
    let later = harness.accept(NewJob { queue: slow.clone(), start, ..harness.job() }).await;
    store.pause_queue(&us(), &slow, false).await.unwrap();
    let claimed: Vec<_> = harness.claim(10).await.iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed, [urgent.id, first.id, second.id]);
    harness.advance(minute);
    assert_eq!(harness.claim_one().await.job.id, later.id);
}

/// A job that becomes due in a paused queue is not claimed.
pub async fn job_that_becomes_due_in_a_paused_queue_stays_there(harness: &StoreHarness) {
    let (store, slow, hour) = (harness.store(), name("slow"), Duration::from_hours(1));
    let in_slow = || NewJob { queue: slow.clone(), ..harness.job() };
    let retried = harness.running_as(in_slow()).await;
    let resumed = harness.running_as(in_slow()).await;
    harness.settle(&resumed, failed_for_good()).await.unwrap();
    let later = harness.accept(NewJob { start: Start::In(hour), ..in_slow() }).await;
    store.pause_queue(&us(), &slow, true).await.unwrap();
    harness.settle(&retried, failed()).await.unwrap();
    store.resume(&us(), resumed.job.id).await.unwrap();
    let fork = store.fork(&us(), resumed.job.id, harness.id(), None).await.unwrap();
    harness.advance(hour * 2);
    assert!(harness.claim(10).await.is_empty());
    assert_eq!(queues(harness).await[0].pending, 4);
    store.pause_queue(&us(), &slow, false).await.unwrap();
    let mut claimed: Vec<_> = harness.claim(10).await.iter().map(|lease| lease.job.id).collect();
    let mut expected = vec![retried.job.id, resumed.job.id, later.id, fork.id];
    claimed.sort();
    expected.sort();
    assert_eq!(claimed, expected);
}

/// The pending count includes jobs that are not due, and no running or finished jobs.
pub async fn only_pending_jobs_are_counted_as_pending(harness: &StoreHarness) {
    let count = async || harness.store().count_pending(&us(), None, 100).await.unwrap();
    assert_eq!(count().await, 0);
    harness.ended(done()).await;
    harness.ended(failed_for_good()).await;
    let cancelled = harness.pending().await.id;
    harness.store().cancel(&us(), cancelled).await.unwrap();
    let running = harness.running().await;
    assert_eq!(count().await, 0);
    harness.accept(NewJob { start: Start::In(Duration::from_hours(1)), ..harness.job() }).await;
    harness.store().pause_queue(&us(), &name("held"), true).await.unwrap();
    harness.accept(NewJob { queue: name("held"), ..harness.job() }).await;
    assert_eq!(count().await, 2);
    harness.settle(&running, failed()).await.unwrap();
    assert_eq!(count().await, 3, "one job is pending again");
}

/// Each tenant has its own pending count.
pub async fn pending_jobs_are_counted_for_one_tenant_only(harness: &StoreHarness) {
    let other = tenant("other");
    harness.pending().await;
    harness.accept(harness.job_of(&other)).await;
    harness.accept(harness.job_of(&other)).await;
    assert_eq!(harness.store().count_pending(&us(), None, 100).await.unwrap(), 1);
    assert_eq!(harness.store().count_pending(&other, None, 100).await.unwrap(), 2);
    assert_eq!(harness.store().count_pending(&tenant("third"), None, 100).await.unwrap(), 0);
}

/// The pending count can be restricted to one queue.
pub async fn pending_jobs_are_counted_for_one_queue_only(harness: &StoreHarness) {
    let mail = name("mail");
    harness.pending().await;
    for _ in 0..3 {
        harness.accept(NewJob { queue: mail.clone(), ..harness.job() }).await;
    }
    harness.accept(NewJob { queue: mail.clone(), ..harness.job_of(&tenant("other")) }).await;
    let count =
        async |queue, up_to| harness.store().count_pending(&us(), queue, up_to).await.unwrap();
    assert_eq!(count(None, 100).await, 4);
    assert_eq!(count(Some(&mail), 100).await, 3);
    assert_eq!(count(Some(&mail), 2).await, 2);
    assert_eq!(count(Some(&name("nobody")), 100).await, 0);
}

/// Counting stops at the requested maximum, so that a quota check is cheap for long queues.
pub async fn pending_jobs_are_counted_no_further_than_asked(harness: &StoreHarness) {
    for _ in 0..3 {
        harness.pending().await;
    }
    for (up_to, counted) in [(0, 0), (1, 1), (3, 3), (4, 3), (u64::MAX, 3)] {
        assert_eq!(harness.store().count_pending(&us(), None, up_to).await.unwrap(), counted);
    }
}
