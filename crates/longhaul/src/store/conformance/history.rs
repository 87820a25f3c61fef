//! Histories: every transition is reported to watchers once, in order, with increasing versions.

use super::harness::{StoreHarness, TICK, done, failed, failed_for_good, settlement};
use crate::job::{JobId, Outcome, Progress, Record, Status, TenantId};
use crate::store::{Report, Settlement};

/// Returns the statuses and phases of a history, as `status` or `status/phase`.
fn told(record: &Record) -> Vec<String> {
    record
        .history
        .iter()
        .map(|event| match &event.phase {
            Some(phase) => format!("{}/{phase}", event.status),
            None => event.status.to_string(),
        })
        .collect()
}

/// Asserts the invariants of every history.
fn assert_sound(record: &Record) {
    let versions: Vec<u64> = record.history.iter().map(|event| event.version).collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "versions increase: {versions:?}");
    assert!(record.history.iter().map(|event| event.at).is_sorted());
    let last = record.history.last().expect("accepting a job is its first event");
    assert_eq!((last.status, last.attempt), (record.job.status, record.job.attempt));
    assert!(last.version <= record.job.version);
}

/// A watcher that follows a job from version to version.
struct Watcher {
    id: JobId,
    version: u64,
    seen: Vec<(u64, Status)>,
}

impl Watcher {
    fn of(id: JobId) -> Self {
        Self { id, version: 0, seen: Vec::new() }
    }

    async fn look(&mut self, harness: &StoreHarness) {
        let record = harness.record(self.id).await;
        assert_sound(&record);
        assert!(record.job.version >= self.version, "a version never decreases");
        for owed in record.since(self.version) {
            assert!(owed.job.version > self.version);
            self.version = owed.job.version;
            self.seen.push((owed.job.version, owed.job.status));
        }
        assert_eq!(self.version, record.job.version);
        assert!(record.since(self.version).is_empty(), "no transition is returned twice");
    }
}

/// The history of a job contains each of its transitions as one event.
pub async fn every_transition_is_one_event(harness: &StoreHarness) {
    let (store, us) = (harness.store(), TenantId::default());
    let first = harness.running().await;
    let id = first.job.id;
    harness.phase(&first, "loading").await.unwrap();
    harness.lose(&first).await;
    let second = harness.claim_one().await;
    harness.settle(&second, failed()).await.unwrap();
    let third = harness.claim_one().await;
    harness.settle(&third, Outcome::Released).await.unwrap();
    let third = harness.claim_one().await;
    store.cancel(&us, id).await.unwrap();
    harness.settle(&third, Outcome::Cancelled).await.unwrap();
    store.resume(&us, id).await.unwrap();
    let fourth = harness.claim_one().await;
    harness.settle(&fourth, done()).await.unwrap();
    let record = harness.record(id).await;
    assert_sound(&record);
    let statuses: Vec<_> = record.history.iter().map(|event| event.status.as_str()).collect();
    assert_eq!(
        statuses,
        [
            "pending",
            "running",
            "running",
            "pending",
            "running",
            "pending",
            "running",
            "pending",
            "running",
            "running",
            "cancelled",
            "pending",
            "running",
            "completed"
        ]
    );
    let attempts: Vec<_> = record.attempts().into_iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 3, 4]);
}

/// The events of an attempt name its replica and its error.
pub async fn events_tell_who_and_why(harness: &StoreHarness) {
    let lost = harness.running().await;
    harness.lose(&lost).await;
    let lease = harness.claim_one().await;
    harness.settle(&lease, failed_for_good()).await.unwrap();
    let attempts = harness.record(lease.job.id).await.attempts();
    let told: Vec<_> = attempts
        .iter()
        .map(|a| (a.replica.as_deref(), a.status, a.error.as_ref().map(|e| e.code.as_str())))
        .collect();
    assert_eq!(
        told,
        [
            (Some("replica-1"), Some(Status::Pending), Some("worker-lost")),
            (Some("replica-1"), Some(Status::Failed), Some("failed")),
        ]
    );
}

/// A watcher that reads after every change and one that reads once see the same transitions.
pub async fn watchers_see_every_transition_once_however_often_they_look(harness: &StoreHarness) {
    let (store, us) = (harness.store(), TenantId::default());
    let id = harness.pending().await.id;
    let mut eager = Watcher::of(id);
    eager.look(harness).await;
    let lease = harness.claim_one().await;
    eager.look(harness).await;
    harness.phase(&lease, "loading").await.unwrap();
    eager.look(harness).await;
    store.cancel(&us, id).await.unwrap();
    eager.look(harness).await;
    eager.look(harness).await;
    harness.settle(&lease, failed()).await.unwrap();
    eager.look(harness).await;
    let mut late = Watcher::of(id);
    late.look(harness).await;
    assert_eq!(eager.seen, late.seen);
    let statuses: Vec<_> = late.seen.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(statuses, ["pending", "running", "running", "running", "cancelled"]);
}

/// Each phase is an event, in the order of the worker's reports.
pub async fn each_phase_is_an_event(harness: &StoreHarness) {
    let lease = harness.running().await;
    let phases = ["loading", "rendering"].map(str::to_owned).to_vec();
    let report = Report { lease: lease.to_ref(), phases, progress: None };
    harness.store().report(vec![report]).await.remove(0).unwrap();
    let record = harness.record(lease.job.id).await;
    assert_sound(&record);
    assert_eq!(record.job.phase.as_deref(), Some("rendering"));
    assert_eq!(told(&record), ["pending", "running", "running/loading", "running/rendering"]);
}

/// A phase is cleared when its attempt ends.
pub async fn phase_ends_with_its_attempt(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.phase(&lease, "loading").await.unwrap();
    harness.settle(&lease, Outcome::Released).await.unwrap();
    assert_eq!(harness.record(lease.job.id).await.job.phase, None);
    assert_eq!(harness.claim_one().await.job.phase, None);
}

/// After a cancellation request the phase is `cancelling` until the job stops, regardless of later reports.
pub async fn phase_is_cancelling_until_the_job_stops(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    harness.phase(&lease, "rendering").await.unwrap();
    let record = harness.record(lease.job.id).await;
    assert_eq!(record.job.phase.as_deref(), Some("cancelling"));
    assert_eq!(told(&record), ["pending", "running", "running/cancelling"]);
}

/// A progress report raises the version and adds no event.
pub async fn progress_raises_the_version_and_is_no_event(harness: &StoreHarness) {
    let lease = harness.running().await;
    let mut before = harness.record(lease.job.id).await;
    for done in 1..=3 {
        let progress = Some(Progress { done, total: Some(3), message: None });
        let report =
            Report { lease: lease.to_ref(), phases: Vec::new(), progress: progress.clone() };
        harness.store().report(vec![report]).await.remove(0).unwrap();
        let record = harness.record(lease.job.id).await;
        assert_eq!(record.job.progress, progress);
        assert_eq!(record.history, before.history);
        assert!(record.job.version > before.job.version);
        assert_eq!(record.since(before.job.version).len(), 1, "the latest progress is returned");
        before = record;
    }
}

/// One call takes the reports of many jobs and returns a result for each.
pub async fn reports_are_answered_one_by_one(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    let other = harness.running().await;
    let report = |lease: &crate::store::Lease| Report {
        lease: lease.to_ref(),
        phases: vec!["x".to_owned()],
        progress: None,
    };
    let answers =
        harness.store().report(vec![report(&late), report(&current), report(&other)]).await;
    assert_eq!(answers, [Err(crate::store::StoreError::LeaseLost), Ok(()), Ok(())]);
}

/// Every operation that changes a job raises its version.
pub async fn version_rises_with_every_change(harness: &StoreHarness) {
    let (store, us) = (harness.store(), TenantId::default());
    let id = harness.pending().await.id;
    let mut versions = vec![harness.record(id).await.job.version];
    let lease = harness.claim_one().await;
    versions.push(lease.job.version);
    harness.phase(&lease, "loading").await.unwrap();
    versions.push(harness.record(id).await.job.version);
    versions.push(harness.settle(&lease, failed()).await.unwrap().version);
    let lease = harness.claim_one().await;
    versions.push(lease.job.version);
    versions.push(harness.lose(&lease).await.version);
    let lease = harness.claim_one().await;
    versions.push(lease.job.version);
    versions.push(store.cancel(&us, id).await.unwrap().version);
    versions.push(harness.settle(&lease, failed()).await.unwrap().version);
    versions.push(store.resume(&us, id).await.unwrap().version);
    versions.push(store.cancel(&us, id).await.unwrap().version);
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    assert_sound(&harness.record(id).await);
}

/// A job finishes once, and that is its last event.
pub async fn terminal_event_is_one_and_last(harness: &StoreHarness) {
    for outcome in [done(), failed_for_good(), Outcome::Cancelled] {
        let lease = harness.running().await;
        let last = Settlement { phases: vec!["x".to_owned()], ..settlement(&lease, outcome) };
        harness.settle_as(last.clone()).await.unwrap();
        harness.settle_as(last).await.unwrap();
        let record = harness.record(lease.job.id).await;
        assert_sound(&record);
        let ends: Vec<_> = record.history.iter().filter(|e| e.status.is_terminal()).collect();
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].version, record.history.last().unwrap().version);
        assert_eq!(ends[0].version, record.job.version);
    }
}

/// A fork starts with a history of its own.
pub async fn fork_begins_its_own_history(harness: &StoreHarness) {
    let lease = harness.running().await;
    let id = harness.id();
    harness.store().fork(&TenantId::default(), lease.job.id, id, None).await.unwrap();
    let record = harness.record(id).await;
    assert_sound(&record);
    assert_eq!(told(&record), ["pending"]);
}

/// A job that is cancelled and resumed before it ever ran keeps these events, with their times.
pub async fn history_survives_ends_without_an_attempt(harness: &StoreHarness) {
    let (store, us) = (harness.store(), TenantId::default());
    let id = harness.pending().await.id;
    harness.advance(TICK);
    let cancelled = store.cancel(&us, id).await.unwrap();
    let record = harness.record(id).await;
    assert_sound(&record);
    let last = record.history.last().unwrap();
    assert_eq!((last.status, last.replica.as_deref()), (Status::Cancelled, None));
    assert_eq!(Some(last.at), cancelled.completed_at);
    harness.advance(TICK);
    store.resume(&us, id).await.unwrap();
    let lease = harness.claim_one().await;
    harness.phase(&lease, "loading").await.unwrap();
    harness.settle(&lease, failed_for_good()).await.unwrap();
    let before = harness.record(id).await.history;
    store.resume(&us, id).await.unwrap();
    let record = harness.record(id).await;
    assert_sound(&record);
    assert_eq!(record.history[..before.len()], before);
    let statuses: Vec<_> = record.history.iter().map(|event| event.status.as_str()).collect();
    let want = ["pending", "cancelled", "pending", "running", "running", "failed", "pending"];
    assert_eq!(statuses, want);
}
