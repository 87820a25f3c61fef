//! Steps: a checkpoint is permanent, and every later attempt reads it.

use std::time::Duration;

use super::harness::{StoreHarness, done, failed, json};
use crate::job::{Outcome, Step, TenantId};
use crate::store::{Checkpoint, StoreError};

async fn steps(harness: &StoreHarness, id: crate::job::JobId) -> Vec<Step> {
    harness.store().steps(&TenantId::default(), id).await.unwrap()
}

/// A checkpoint is stored unchanged.
pub async fn checkpoint_is_kept_as_it_was_given(harness: &StoreHarness) {
    let lease = harness.running().await;
    let started_at = harness.now();
    harness.advance(Duration::from_secs(2));
    let checkpoint = Checkpoint {
        lease: lease.to_ref(),
        name: "fetch / 'page' 1".to_owned(),
        position: 4,
        output: json(r#"{ "n":1.0 }"#),
        alone: false,
        started_at,
    };
    harness.store().checkpoint(checkpoint.clone()).await.unwrap();
    let want = Step {
        name: checkpoint.name,
        position: 4,
        output: checkpoint.output,
        alone: false,
        attempt: 1,
        started_at,
        completed_at: harness.now(),
    };
    assert_eq!(steps(harness, lease.job.id).await, [want]);
}

/// A worker may repeat a checkpoint when its response was lost.
pub async fn same_checkpoint_again_is_fine(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "a", "1").await.unwrap();
    let before = steps(harness, lease.job.id).await;
    harness.advance(Duration::from_secs(1));
    harness.step(&lease, 0, "a", "1").await.unwrap();
    assert_eq!(steps(harness, lease.job.id).await, before);
}

/// A stored step never changes.
pub async fn other_output_under_a_stored_name_is_refused(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "a", "1").await.unwrap();
    let before = steps(harness, lease.job.id).await;
    let conflict = Err(StoreError::StepConflict { name: "a".to_owned() });
    assert_eq!(harness.step(&lease, 0, "a", "2").await, conflict);
    assert_eq!(steps(harness, lease.job.id).await, before);
    harness.settle(&lease, failed()).await.unwrap();
    let next = harness.claim_one().await;
    assert_eq!(harness.step(&next, 0, "a", "2").await, conflict);
    assert_eq!(steps(harness, lease.job.id).await, before);
}

/// Steps are returned in the order of the handler's calls, regardless of the order in which they finished.
pub async fn steps_come_in_their_order(harness: &StoreHarness) {
    let lease = harness.running().await;
    for (position, name) in [(2, "c"), (10, "k"), (0, "z"), (1, "b")] {
        harness.step(&lease, position, name, "1").await.unwrap();
    }
    let names: Vec<_> =
        steps(harness, lease.job.id).await.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["z", "b", "c", "k"]);
    harness.settle(&lease, Outcome::Released).await.unwrap();
    let names: Vec<_> = harness.claim_one().await.steps.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["z", "b", "c", "k"]);
}

/// The next attempt gets all finished steps, however the last attempt ended, so that none runs again.
pub async fn later_attempts_see_what_earlier_ones_finished(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    for (position, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let position = u32::try_from(position).unwrap();
        assert_eq!(lease.steps.len(), usize::try_from(position).unwrap());
        harness.step(&lease, position, name, "1").await.unwrap();
        match position {
            0 => drop(harness.lose(&lease).await),
            1 => drop(harness.settle(&lease, failed()).await.unwrap()),
            2 => drop(harness.settle(&lease, Outcome::Released).await.unwrap()),
            _ => break,
        }
        lease = harness.claim_one().await;
        assert_eq!(lease.steps, steps(harness, lease.job.id).await);
    }
    let attempts: Vec<_> =
        steps(harness, lease.job.id).await.into_iter().map(|step| step.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 3]);
}

/// Steps are readable after the job has finished.
pub async fn steps_are_readable_after_the_end(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "a", "1").await.unwrap();
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(steps(harness, lease.job.id).await.len(), 1);
}

/// Steps of one job are not visible to another.
pub async fn steps_belong_to_their_job(harness: &StoreHarness) {
    let one = harness.running().await;
    let other = harness.running().await;
    harness.step(&one, 0, "a", "1").await.unwrap();
    harness.step(&other, 0, "a", "2").await.unwrap();
    assert_eq!(steps(harness, one.job.id).await[0].output, json("1"));
    assert_eq!(steps(harness, other.job.id).await[0].output, json("2"));
}

/// Concurrent checkpoints of one job are all stored.
pub async fn concurrent_checkpoints_are_all_kept(harness: &StoreHarness) {
    let lease = harness.running().await;
    let saves: Vec<_> = (0..50)
        .map(|position| {
            let (store, started_at) = (harness.store(), harness.now());
            let checkpoint = Checkpoint {
                lease: lease.to_ref(),
                name: format!("page-{position}"),
                position,
                output: json(&position.to_string()),
                alone: false,
                started_at,
            };
            tokio::spawn(async move { store.checkpoint(checkpoint).await })
        })
        .collect();
    for save in saves {
        save.await.unwrap().unwrap();
    }
    let outputs: Vec<_> =
        steps(harness, lease.job.id).await.into_iter().map(|s| s.output).collect();
    assert_eq!(outputs, (0..50).map(|n| json(&n.to_string())).collect::<Vec<_>>());
}
