//! Output streams between processes, for stores that have them.

use std::sync::Arc;

use super::harness::{StoreHarness, done, failed, tenant};
use crate::store::{Lease, LeaseRef, NewJob, OutputChunks, OutputPosition, Store};

/// Parts of one stream per read, more than the cases write.
const PARTS: usize = 100;

/// The streams of a store.
struct Output(Arc<dyn Store>);

impl Output {
    /// Returns the streams; `None` if the store belongs to one process, which needs none.
    fn of(harness: &StoreHarness) -> Option<Self> {
        let store = harness.store();
        store.output_streams().is_some().then_some(Self(store))
    }

    async fn append(&self, lease: &LeaseRef, first: u64, texts: &[&str]) {
        self.append_all(&[chunks(lease, first, texts)]).await;
    }

    async fn append_all(&self, appended: &[OutputChunks]) {
        self.0.output_streams().unwrap().append_output(appended).await.unwrap();
    }

    /// Reads one stream from this position on.
    async fn read(&self, lease: &LeaseRef, chunk: u64) -> Vec<OutputChunks> {
        self.read_all(&[position(lease, chunk)], PARTS).await
    }

    async fn read_all(&self, positions: &[OutputPosition], limit: usize) -> Vec<OutputChunks> {
        self.0.output_streams().unwrap().read_output(positions, limit).await.unwrap()
    }

    async fn trim(&self, lease: &LeaseRef, chunk: u64) {
        let positions = [position(lease, chunk)];
        self.0.output_streams().unwrap().trim_output(&positions).await.unwrap();
    }

    async fn prune(&self, limit: usize) -> usize {
        self.0.output_streams().unwrap().prune_output(limit).await.unwrap()
    }
}

fn chunks(lease: &LeaseRef, first: u64, texts: &[&str]) -> OutputChunks {
    let chunks = texts.iter().map(|text| Arc::from(*text)).collect();
    OutputChunks { lease: lease.clone(), first, chunks }
}

fn position(lease: &LeaseRef, chunk: u64) -> OutputPosition {
    OutputPosition { lease: lease.clone(), chunk }
}

/// Returns the position of a reader that knows no attempt of the job yet.
fn unknown(lease: &LeaseRef) -> LeaseRef {
    LeaseRef { epoch: 0, ..lease.clone() }
}

/// Chunks are read in order and with their borders, from the start or from a later position.
pub async fn output_is_read_in_order_from_any_position(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let lease = harness.running().await.to_ref();
    assert_eq!(output.read(&unknown(&lease), 0).await, [chunks(&lease, 0, &[])]);
    assert_eq!(output.read(&lease, 0).await, []);
    let odd = ["Zürich \u{1f426}", "", "\"\\\n\u{2028}", "nul \0 byte"];
    output.append(&lease, 0, &["one", "two"]).await;
    output.append(&lease, 2, &odd).await;
    output.append(&lease, 6, &["three"]).await;
    let [first, second, third] = [
        chunks(&lease, 0, &["one", "two"]),
        chunks(&lease, 2, &odd),
        chunks(&lease, 6, &["three"]),
    ];
    let all = [first, second.clone(), third.clone()];
    assert_eq!(output.read(&unknown(&lease), 0).await, all);
    assert_eq!(output.read(&lease, 2).await, [second, third]);
    assert_eq!(output.read(&lease, 7).await, []);
}

/// One call appends to many streams, and one call reads them.
pub async fn output_of_many_jobs_is_appended_and_read_at_once(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let (one, other) = (harness.running().await.to_ref(), harness.running().await.to_ref());
    let mut appended = Vec::new();
    for first in 0..5 {
        appended.extend([chunks(&one, first, &["a"]), chunks(&other, first, &["b"])]);
    }
    output.append_all(&appended).await;
    output.append_all(&[]).await;
    assert_eq!(output.read_all(&[], PARTS).await, []);
    // The limit applies to each stream.
    let read = output.read_all(&[position(&one, 1), position(&unknown(&other), 0)], 2).await;
    let expected = [(&one, 1), (&one, 2), (&other, 0), (&other, 1)];
    let read: Vec<_> = read.iter().map(|part| (&part.lease, part.first)).collect();
    assert_eq!(read, expected);
}

/// A flush whose response was lost is repeated.
pub async fn output_that_is_appended_again_is_stored_once(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let lease = harness.running().await.to_ref();
    for _ in 0..2 {
        output.append_all(&[chunks(&lease, 0, &["a"]), chunks(&lease, 1, &["b"])]).await;
    }
    assert_eq!(output.read(&lease, 0).await.len(), 2);
}

/// Readers must not see output of a worker whose lease expired, nor with an epoch that was never issued.
pub async fn late_worker_cannot_append_output(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let (late, current) = harness.superseded().await;
    let (late, current) = (late.to_ref(), current.to_ref());
    let forged = LeaseRef { epoch: current.epoch + 1, ..current.clone() };
    let appended = [&late, &current, &forged].map(|lease| chunks(lease, 0, &["a"]));
    output.append_all(&appended).await;
    assert_eq!(output.read(&unknown(&current), 0).await, [chunks(&current, 0, &["a"])]);
    assert_eq!(output.read(&late, 0).await, [chunks(&current, 0, &["a"])]);
}

/// A settled attempt has no lease.
pub async fn settled_attempt_cannot_append_output(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let lease = harness.running().await;
    harness.settle(&lease, done()).await.unwrap();
    output.append(&lease.to_ref(), 0, &["late"]).await;
    assert_eq!(output.read(&unknown(&lease.to_ref()), 0).await, []);
}

/// A reader gets the output of the newest attempt from its start, whatever it has read before.
pub async fn output_of_the_newest_attempt_is_read(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let first = harness.running().await;
    output.append(&first.to_ref(), 0, &["one", "two"]).await;
    harness.settle(&first, failed()).await.unwrap();
    assert_eq!(output.read(&unknown(&first.to_ref()), 0).await.len(), 1, "the last attempt's");
    let second = harness.claim_one().await.to_ref();
    let first = first.to_ref();
    for known in [unknown(&first), first.clone()] {
        assert_eq!(output.read(&known, 0).await, [chunks(&second, 0, &[])]);
    }
    output.append(&second, 0, &["uno"]).await;
    for known in [unknown(&first), first.clone(), second.clone()] {
        assert_eq!(output.read(&known, 0).await, [chunks(&second, 0, &["uno"])]);
    }
    assert_eq!(output.read(&first, 2).await, [chunks(&second, 0, &["uno"])]);
    assert_eq!(output.read(&second, 1).await, []);
}

/// A job's id alone gives no access to its output.
pub async fn output_of_other_tenants_is_not_read(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let ours = harness.running().await;
    let theirs = harness.running_as(NewJob { id: ours.job.id, ..harness.job_of(&tenant("other")) });
    let (ours, theirs) = (ours.to_ref(), theirs.await.to_ref());
    output.append(&theirs, 0, &["secret"]).await;
    assert_eq!(output.read(&unknown(&ours), 0).await, [chunks(&ours, 0, &[])]);
    output.append(&ours, 0, &["ours"]).await;
    assert_eq!(output.read(&unknown(&ours), 0).await, [chunks(&ours, 0, &["ours"])]);
    output.trim(&ours, u64::MAX).await;
    assert_eq!(output.read(&theirs, 0).await, [chunks(&theirs, 0, &["secret"])]);
    // A lease of one tenant is none of another's.
    let forged = LeaseRef { tenant: tenant("third"), ..ours };
    output.append(&forged, 0, &["forged"]).await;
    assert_eq!(output.read(&forged, 0).await, []);
}

/// Trimming deletes the chunks before a position, of one attempt.
pub async fn trimmed_output_is_gone_and_the_rest_stays(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    let (one, other) = (harness.running().await.to_ref(), harness.running().await.to_ref());
    for lease in [&one, &other] {
        output.append_all(&[chunks(lease, 0, &["a"]), chunks(lease, 1, &["b"])]).await;
    }
    output.trim(&one, 1).await;
    output.trim(&LeaseRef { epoch: other.epoch + 1, ..other.clone() }, u64::MAX).await;
    assert_eq!(output.read(&one, 0).await, [chunks(&one, 1, &["b"])]);
    assert_eq!(output.read(&other, 0).await.len(), 2);
    output.trim(&other, u64::MAX).await;
    assert_eq!(output.read(&other, 0).await, []);
}

/// Nothing is left of attempts that ended with their process or without a trim.
pub async fn output_of_ended_attempts_is_pruned(harness: &StoreHarness) {
    let Some(output) = Output::of(harness) else { return };
    assert_eq!(output.prune(10).await, 0);
    let write = async |lease: &Lease| {
        let lease = lease.to_ref();
        output.append_all(&[chunks(&lease, 0, &["a"]), chunks(&lease, 1, &["b"])]).await;
    };
    let lost = harness.running().await;
    write(&lost).await;
    harness.lose(&lost).await;
    let retried = harness.claim_one().await;
    write(&retried).await;
    let mut ended = Vec::new();
    for name in ["a", "b", "z"] {
        let lease = harness.running_as(harness.job_of(&tenant(name))).await;
        write(&lease).await;
        harness.settle(&lease, done()).await.unwrap();
        ended.push(lease.to_ref());
    }
    let mut pruned = Vec::new();
    for _ in 0..3 {
        pruned.push(output.prune(2).await);
    }
    assert_eq!(pruned, [2, 2, 0]);
    for lease in ended {
        assert_eq!(output.read(&lease, 0).await, []);
    }
    assert_eq!(output.read(&lost.to_ref(), 0).await, output.read(&retried.to_ref(), 0).await);
    assert_eq!(output.read(&retried.to_ref(), 0).await.len(), 2);
}
