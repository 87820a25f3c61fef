//! The replica registry: heartbeats and unique names.

use std::time::Duration;

use super::harness::{StoreHarness, TICK, demo, done, name};
use crate::store::{Claim, Heartbeat, REPLICA_FORGOTTEN_AFTER, ReplicaState, StoreError};

const SILENT_AFTER: Duration = Duration::from_secs(15);
/// The replica that claims in all cases.
const REPLICA: &str = "replica-1";

fn beat(replica: &str) -> Heartbeat {
    Heartbeat {
        replica: replica.to_owned(),
        // Does not fit into a signed integer.
        run: u64::MAX - 1,
        role: "all".to_owned(),
        version: "1.2.3".to_owned(),
        host: "host-1".to_owned(),
        pid: 4_000_000,
        process: "boot/4026531836/77".to_owned(),
        kinds: vec![demo(), name("resize")],
        running: 3,
        concurrency: 8,
        silent_after: SILENT_AFTER,
    }
}

async fn replicas(harness: &StoreHarness) -> Vec<ReplicaState> {
    harness.store().replicas().await.unwrap()
}

async fn names(harness: &StoreHarness) -> Vec<String> {
    replicas(harness).await.into_iter().map(|known| known.heartbeat.replica).collect()
}

/// A replica is listed with its heartbeat and start time.
pub async fn beat_is_shown_as_it_was_given(harness: &StoreHarness) {
    assert!(replicas(harness).await.is_empty());
    let said = [beat("a"), Heartbeat { run: 0, kinds: Vec::new(), ..beat("b") }];
    for said in &said {
        harness.store().heartbeat(said).await.unwrap();
    }
    let now = harness.now();
    let shown = said.map(|heartbeat| ReplicaState {
        heartbeat,
        started_at: now,
        seen_at: now,
        alive: true,
    });
    assert_eq!(replicas(harness).await, shown);
}

/// Each process is listed once, with its latest heartbeat and the time of its first.
pub async fn later_beat_replaces_the_earlier_one(harness: &StoreHarness) {
    harness.store().heartbeat(&beat("a")).await.unwrap();
    let started_at = harness.now();
    harness.advance(Duration::from_secs(5));
    let later = Heartbeat { running: 8, kinds: vec![demo()], ..beat("a") };
    harness.store().heartbeat(&later).await.unwrap();
    let shown = ReplicaState { heartbeat: later, started_at, seen_at: harness.now(), alive: true };
    assert_eq!(replicas(harness).await, [shown]);
}

/// Replicas are listed by name, so that the order is stable.
pub async fn replicas_come_by_name(harness: &StoreHarness) {
    for replica in ["b", "c", "a"] {
        harness.store().heartbeat(&beat(replica)).await.unwrap();
    }
    assert_eq!(names(harness).await, ["a", "b", "c"]);
}

/// A replica without recent heartbeats is not alive, because a killed process cannot deregister.
pub async fn silent_replica_is_not_alive(harness: &StoreHarness) {
    let alive = async || replicas(harness).await.remove(0).alive;
    harness.store().heartbeat(&beat("a")).await.unwrap();
    harness.advance_short_of(SILENT_AFTER);
    assert!(alive().await);
    harness.advance(TICK);
    assert!(!alive().await);
    harness.store().heartbeat(&beat("a")).await.unwrap();
    assert!(alive().await, "a late heartbeat revives it");
}

/// A replica that deregisters is deleted immediately and its name is free.
pub async fn replica_that_left_is_forgotten(harness: &StoreHarness) {
    harness.store().heartbeat(&beat("a")).await.unwrap();
    harness.store().heartbeat(&beat("b")).await.unwrap();
    harness.store().deregister("a").await.unwrap();
    harness.store().deregister("nobody").await.unwrap();
    assert_eq!(names(harness).await, ["b"]);
    harness.advance(TICK);
    harness.store().heartbeat(&Heartbeat { run: 2, ..beat("a") }).await.unwrap();
    assert_eq!(replicas(harness).await[0].started_at, harness.now(), "its name is free at once");
}

/// Replicas without heartbeats are deleted in the end. Names are often random, so the list would grow.
pub async fn replica_that_is_silent_for_long_is_forgotten(harness: &StoreHarness) {
    harness.store().heartbeat(&beat("old")).await.unwrap();
    harness.advance_short_of(REPLICA_FORGOTTEN_AFTER);
    harness.store().heartbeat(&beat("new")).await.unwrap();
    assert_eq!(names(harness).await, ["new", "old"]);
    harness.advance(TICK);
    harness.store().heartbeat(&beat("new")).await.unwrap();
    assert_eq!(names(harness).await, ["new"]);
}

/// Two running processes cannot have the same name.
pub async fn name_of_a_living_replica_is_not_given_away(harness: &StoreHarness) {
    harness.store().heartbeat(&beat("a")).await.unwrap();
    let before = replicas(harness).await;
    let other = Heartbeat { run: 2, host: "host-2".to_owned(), ..beat("a") };
    let refused = StoreError::NameTaken { replica: "a".to_owned() };
    assert_eq!(harness.store().heartbeat(&other).await, Err(refused.clone()));
    assert_eq!(replicas(harness).await, before);
    harness.advance_short_of(SILENT_AFTER);
    // The timeout of the registered replica applies, not that of the new process.
    let other = Heartbeat { silent_after: TICK, ..other };
    assert_eq!(harness.store().heartbeat(&other).await, Err(refused));
}

/// A process that knows that its predecessor has ended takes its name and ends its leases at once. Attempts of other
/// replicas go on.
pub async fn ended_process_is_replaced_at_once(harness: &StoreHarness) {
    harness.store().heartbeat(&beat(REPLICA)).await.unwrap();
    harness.store().heartbeat(&beat("other")).await.unwrap();
    let mut lost = Vec::new();
    for _ in 0..6 {
        lost.push(harness.pending().await.id);
    }
    // Claimed together, because such jobs may share a lease.
    assert_eq!(harness.claim(6).await.len(), 6);
    let new = harness.pending().await.id;
    let want = Claim { replica: "other".to_owned(), ..harness.want(1) };
    let kept = harness.store().claim(&want).await.unwrap().leases.remove(0);
    assert_eq!(kept.job.id, new);

    let next = Heartbeat { run: 2, pid: 2, ..beat(REPLICA) };
    let refused = StoreError::NameTaken { replica: REPLICA.to_owned() };
    assert_eq!(harness.store().heartbeat(&next).await, Err(refused));
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    harness.store().take_over(REPLICA, beat(REPLICA).run).await.unwrap();
    assert_eq!(names(harness).await, ["other"]);
    harness.store().heartbeat(&next).await.unwrap();
    let mut rescued: Vec<_> =
        harness.store().rescue(10).await.unwrap().into_iter().map(|job| job.id).collect();
    rescued.sort_unstable();
    assert_eq!(rescued, lost);
    harness.step(&kept, 0, "a", "1").await.unwrap();
    harness.settle(&kept, done()).await.unwrap();
}

/// The leases of a process are safe from one that looked at an earlier process with its name.
pub async fn name_that_changed_hands_is_not_taken_over(harness: &StoreHarness) {
    harness.store().heartbeat(&beat(REPLICA)).await.unwrap();
    let before = replicas(harness).await;
    let lease = harness.running().await;
    harness.store().take_over(REPLICA, 2).await.unwrap();
    harness.store().take_over("unknown", beat(REPLICA).run).await.unwrap();
    assert_eq!(replicas(harness).await, before);
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    harness.settle(&lease, done()).await.unwrap();
}

/// After a crash, the next process may take the name, with a run number of its own.
pub async fn name_of_a_silent_replica_is_given_to_the_next_run(harness: &StoreHarness) {
    harness.store().heartbeat(&beat("a")).await.unwrap();
    harness.advance(SILENT_AFTER);
    let next = Heartbeat { run: 2, pid: 2, ..beat("a") };
    harness.store().heartbeat(&next).await.unwrap();
    let now = harness.now();
    let shown = ReplicaState { heartbeat: next, started_at: now, seen_at: now, alive: true };
    assert_eq!(replicas(harness).await, [shown]);
    let late = harness.store().heartbeat(&beat("a")).await;
    assert_eq!(late, Err(StoreError::NameTaken { replica: "a".to_owned() }));
}
