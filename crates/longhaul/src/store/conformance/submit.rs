//! Submissions: accepted once, stored unchanged, due at the requested time.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::harness::{StoreHarness, TICK, demo, done, json, name, tenant};
use crate::job::{Fingerprint, Retention, Status, TenantId, Timestamp};
use crate::store::{NewJob, Start, StoreError};

/// An accepted job is readable as it was returned.
pub async fn accepted_job_is_readable(harness: &StoreHarness) {
    let submitted = harness.submit(harness.job()).await.unwrap();
    assert!(submitted.created);
    let record = harness.record(submitted.record.job.id).await;
    assert_eq!(record, submitted.record);
    assert_eq!((record.job.status, record.job.attempt), (Status::Pending, 0));
    assert_eq!(record.result, None);
}

/// All fields of a submission are stored unchanged.
pub async fn accepted_job_is_what_was_submitted(harness: &StoreHarness) {
    let labels = [("team", "ünïcode 'quoted' \"twice\""), ("", "empty name")];
    let new = NewJob {
        queue: name("slow"),
        priority: -7,
        idempotency_key: Some("order/17 — 'x'".to_owned()),
        start: Start::In(Duration::from_secs(30)),
        max_attempts: 9,
        timeout: Some(Duration::from_millis(1_500)),
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        parent_id: Some(harness.pending().await.id),
        ..harness.job()
    };
    let submitted = harness.submit(new.clone()).await.unwrap();
    let job = harness.record(new.id).await.job;
    assert_eq!(job, submitted.record.job);
    assert_eq!((&job.id, &job.tenant), (&new.id, &new.tenant));
    assert_eq!((&job.kind, &job.queue), (&new.kind, &new.queue));
    assert_eq!((job.priority, job.max_attempts), (new.priority, new.max_attempts));
    assert_eq!((job.idempotency_key, job.labels), (new.idempotency_key, new.labels));
    assert_eq!((job.timeout, job.parent_id), (new.timeout, new.parent_id));
    assert_eq!(job.created_at, harness.now());
    assert_eq!(job.run_at, harness.now().after(Duration::from_secs(30)));
    assert_eq!((job.started_at, job.completed_at, job.expires_at), (None, None, None));
    assert_eq!((job.phase, job.progress, job.error), (None, None, None));
    assert_eq!((job.cancel_requested_at, job.forked_from, job.code_version), (None, None, None));
}

/// Large numbers and the order of keys do not change on the way to a handler.
pub async fn input_is_kept_byte_for_byte(harness: &StoreHarness) {
    let text = r#"{ "z":1.0, "a":123456789012345678901234567890, "é":"\u00e9", "a":[ ]}"#;
    // Has a duplicate key, so it has no fingerprint; the store must accept any text.
    let new = NewJob { input: json(text), ..harness.job() };
    let id = harness.accept(new).await.id;
    assert_eq!(harness.store().input(&TenantId::default(), id).await.unwrap().as_str(), text);
    assert_eq!(harness.claim_one().await.input.as_str(), text);
}

/// A client that repeats its submission, because the response was lost, gets the same job.
pub async fn same_key_and_input_give_the_same_job(harness: &StoreHarness) {
    let first = harness.accept(harness.keyed("k")).await;
    let again = harness.submit(harness.keyed("k")).await.unwrap();
    assert!(!again.created);
    assert_eq!(again.record.job, first);
    let jobs = harness.claim(10).await;
    assert_eq!(jobs.len(), 1);
}

/// A repeated submission returns the current state of the job.
pub async fn known_key_answers_with_the_job_as_it_stands_now(harness: &StoreHarness) {
    let lease = harness.running_as(harness.keyed("k")).await;
    harness.settle(&lease, done()).await.unwrap();
    let again = harness.submit(harness.keyed("k")).await.unwrap();
    assert!(!again.created);
    assert_eq!(again.record, harness.record(lease.job.id).await);
    assert_eq!(again.record.job.status, Status::Completed);
    assert!(again.record.result.is_some());
}

/// An idempotency key with another input is an error of the client.
pub async fn key_reused_with_another_input_is_refused(harness: &StoreHarness) {
    let first = harness.accept(harness.keyed("k")).await;
    let other = NewJob {
        fingerprint: Fingerprint::of(&demo(), &json("2"), None).unwrap(),
        input: json("2"),
        ..harness.keyed("k")
    };
    let id = other.id;
    assert_eq!(
        harness.submit(other).await.unwrap_err(),
        StoreError::KeyReused { existing: first.id }
    );
    assert_eq!(harness.try_record(id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(harness.record(first.id).await.job, first);
}

/// Many concurrent submissions with one idempotency key create one job.
pub async fn hundred_concurrent_submissions_of_a_key_make_one_job(harness: &StoreHarness) {
    let submissions: Vec<_> = (0..100)
        .map(|_| {
            let (store, job) = (harness.store(), harness.keyed("k"));
            tokio::spawn(async move { store.submit(vec![job]).await.remove(0).unwrap() })
        })
        .collect();
    let (mut created, mut ids) = (0, HashSet::new());
    for submission in submissions {
        let submitted = submission.await.unwrap();
        created += usize::from(submitted.created);
        ids.insert(submitted.record.job.id);
    }
    assert_eq!((created, ids.len()), (1, 1));
    assert_eq!(harness.claim(100).await.len(), 1);
}

/// A batch may contain the same submission twice.
pub async fn key_twice_in_one_batch_makes_one_job(harness: &StoreHarness) {
    let answers = harness.store().submit(vec![harness.keyed("k"), harness.keyed("k")]).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().map(|a| a.created).collect::<Vec<_>>(), [true, false]);
    assert_eq!(answers[0].record.job.id, answers[1].record.job.id);
}

/// A rejected submission does not affect the others of its batch.
pub async fn refused_submission_does_not_touch_the_others_of_its_batch(harness: &StoreHarness) {
    let first = harness.accept(harness.keyed("k")).await;
    let refused = NewJob { fingerprint: Fingerprint::from_bytes([1; 32]), ..harness.keyed("k") };
    let (one, two) = (harness.job(), harness.job());
    let ids = [one.id, two.id];
    let answers = harness.store().submit(vec![one, refused, two]).await;
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0].as_ref().unwrap().record.job.id, ids[0]);
    assert_eq!(answers[1].as_ref().unwrap_err(), &StoreError::KeyReused { existing: first.id });
    assert_eq!(answers[2].as_ref().unwrap().record.job.id, ids[1]);
    for id in ids {
        harness.record(id).await;
    }
}

/// An empty batch returns no results.
pub async fn empty_batches_are_fine(harness: &StoreHarness) {
    let store = harness.store();
    assert!(store.submit(Vec::new()).await.is_empty());
    assert!(store.settle(Vec::new()).await.is_empty());
    assert!(store.report(Vec::new()).await.is_empty());
    assert!(store.renew(Vec::new(), Duration::from_secs(1)).await.unwrap().is_empty());
}

/// Idempotency keys belong to their tenant.
pub async fn two_tenants_may_use_the_same_key(harness: &StoreHarness) {
    let ours = harness.accept(harness.keyed("k")).await;
    let theirs = NewJob {
        tenant: tenant("other"),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        ..harness.keyed("k")
    };
    let theirs = harness.accept(theirs).await;
    let store = harness.store();
    let by_key = store.job_by_key(&TenantId::default(), "k").await.unwrap();
    assert_eq!(by_key.job.id, ours.id);
    let by_key = store.job_by_key(&tenant("other"), "k").await.unwrap();
    assert_eq!(by_key.job.id, theirs.id);
}

/// A client can find its job by the idempotency key.
pub async fn job_is_found_by_its_key(harness: &StoreHarness) {
    let id = harness.accept(harness.keyed("k")).await.id;
    let store = harness.store();
    let found = store.job_by_key(&TenantId::default(), "k").await.unwrap();
    assert_eq!(found, harness.record(id).await);
    for unknown in ["K", "k ", ""] {
        let error = store.job_by_key(&TenantId::default(), unknown).await.unwrap_err();
        assert_eq!(error, StoreError::NotFound, "{unknown:?}");
    }
}

/// An idempotency key is free after its job was purged.
pub async fn key_is_free_after_purge(harness: &StoreHarness) {
    let lease = harness.running_as(harness.keyed("k")).await;
    harness.settle(&lease, done()).await.unwrap();
    harness.store().purge(&TenantId::default(), lease.job.id).await.unwrap();
    assert_ne!(harness.accept(harness.keyed("k")).await.id, lease.job.id);
}

/// An idempotency key is free after its job expired.
pub async fn key_is_free_after_retention(harness: &StoreHarness) {
    let lease = harness.running_as(harness.keyed("k")).await;
    harness.settle(&lease, done()).await.unwrap();
    harness.advance(Retention::default().completed + TICK);
    assert_eq!(harness.store().prune(10).await.unwrap(), 1);
    assert_ne!(harness.accept(harness.keyed("k")).await.id, lease.job.id);
}

/// A delayed job is not claimed before it is due.
pub async fn delayed_job_is_not_claimed_before_it_is_due(harness: &StoreHarness) {
    let delay = Duration::from_secs(90);
    let later = NewJob { start: Start::In(delay), ..harness.job() };
    let at = NewJob { start: Start::At(harness.now().after(delay)), ..harness.job() };
    let ids = [harness.accept(later).await.id, harness.accept(at).await.id];
    harness.advance_short_of(delay);
    assert!(harness.claim(10).await.is_empty());
    harness.advance(TICK);
    let claimed: Vec<_> = harness.claim(10).await.iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed, ids);
}

/// A start time in the past means now, so that the job does not overtake earlier ones.
pub async fn job_asked_for_in_the_past_is_due_at_once(harness: &StoreHarness) {
    let earlier = harness.accept(harness.job()).await.id;
    harness.advance(TICK);
    let at = Timestamp::from_millis(harness.now().as_millis() - 60_000);
    let job = harness.accept(NewJob { start: Start::At(at), ..harness.job() }).await;
    assert_eq!(job.run_at, harness.now());
    let claimed: Vec<_> = harness.claim(10).await.iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed, [earlier, job.id]);
}

/// Jobs of a batch keep their own labels.
pub async fn jobs_of_a_batch_keep_their_own_words(harness: &StoreHarness) {
    let label = |value: &str| BTreeMap::from([("n".to_owned(), value.to_owned())]);
    let batch: Vec<_> = (0..50)
        .map(|n| NewJob {
            labels: label(&n.to_string()),
            priority: n,
            ..harness.job_with(&n.to_string())
        })
        .collect();
    let answers = harness.store().submit(batch.clone()).await;
    assert_eq!(answers.len(), batch.len());
    for (new, answer) in batch.iter().zip(answers) {
        let job = answer.unwrap().record.job;
        assert_eq!((job.id, job.priority, &job.labels), (new.id, new.priority, &new.labels));
        let input = harness.store().input(&TenantId::default(), new.id).await.unwrap();
        assert_eq!(input, new.input);
    }
}
