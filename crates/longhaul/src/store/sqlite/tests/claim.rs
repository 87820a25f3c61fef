//! Order of claims over tenants, queues and kinds.

use std::sync::Arc;
use std::time::Duration;

use super::{accept, claim, memory, new_job};
use crate::job::{Fingerprint, JobId, Name, TenantId, Timestamp};
use crate::store::sqlite::SqliteStore;
use crate::store::{Claim, ClaimResult, KindCapacity, NewJob, Start, Store};
use crate::store::{JobStore as _, WorkerStore as _};

fn of_tenant(tenant: &str) -> NewJob {
    NewJob { tenant: TenantId::new(tenant).unwrap(), ..new_job() }
}

fn in_lane(queue: &str, kind: &str) -> NewJob {
    let (queue, kind) = (Name::new(queue).unwrap(), Name::new(kind).unwrap());
    let job = new_job();
    NewJob { fingerprint: Fingerprint::of(&kind, &job.input, None).unwrap(), queue, kind, ..job }
}

fn tenants(claimed: &ClaimResult) -> Vec<&str> {
    claimed.leases.iter().map(|lease| lease.job.tenant.as_str()).collect()
}

fn ids(claimed: &ClaimResult) -> Vec<JobId> {
    claimed.leases.iter().map(|lease| lease.job.id).collect()
}

async fn claim_kinds(store: &SqliteStore, limit: usize, kinds: &[(&str, usize)]) -> ClaimResult {
    let room = |(kind, room): &(&str, usize)| KindCapacity {
        kind: Name::new(kind).unwrap(),
        capacity: *room,
        code_version: None,
    };
    let kinds = kinds.iter().map(room).collect();
    let lease = Duration::from_secs(15);
    store
        .claim(&Claim {
            replica: "r1".to_owned(),
            limit,
            lease,
            kinds,
            limits: Arc::default(),
            queue_capacity: None,
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn tenants_take_turns_within_a_claim_and_from_one_to_the_next() {
    let store = memory();
    for tenant in ["a", "a", "a", "a", "b", "c", "c"] {
        accept(&store, of_tenant(tenant)).await;
    }
    assert_eq!(tenants(&claim(&store, 2).await), ["a", "b"]);
    assert_eq!(tenants(&claim(&store, 10).await), ["c", "a", "c", "a", "a"]);
    accept(&store, of_tenant("a")).await;
    accept(&store, of_tenant("b")).await;
    assert_eq!(tenants(&claim(&store, 10).await), ["b", "a"]);
}

#[tokio::test]
async fn one_tenants_kinds_are_merged_by_rank_and_read_ahead_keeps_the_order() {
    let store = memory();
    let mut expected = Vec::new();
    for n in 0..40 {
        let (queue, kind) = [("q1", "k1"), ("q1", "k2"), ("q2", "k1")][n % 3];
        expected.push(accept(&store, in_lane(queue, kind)).await);
        store.clock.advance(Duration::from_millis(1));
    }
    let urgent = accept(&store, NewJob { priority: 1, ..in_lane("q2", "k2") }).await;
    expected.insert(0, urgent);
    let claimed = claim_kinds(&store, 100, &[("k1", 100), ("k2", 100)]).await;
    assert_eq!(ids(&claimed), expected);
}

#[tokio::test]
async fn kinds_without_room_are_passed_by() {
    let store = memory();
    for kind in ["k1", "k1", "k1", "k2", "k3"] {
        accept(&store, in_lane("q", kind)).await;
    }
    let claimed = claim_kinds(&store, 10, &[("k1", 2), ("k2", 5), ("k3", 0)]).await;
    let kinds: Vec<&str> = claimed.leases.iter().map(|lease| lease.job.kind.as_str()).collect();
    assert_eq!(kinds, ["k1", "k1", "k2"]);
    assert!(claim_kinds(&store, 10, &[]).await.leases.is_empty());
}

#[tokio::test]
async fn paused_queue_holds_back_one_tenant_only() {
    let store = memory();
    let (a, queue) = (TenantId::new("a").unwrap(), Name::default_queue());
    accept(&store, of_tenant("a")).await;
    accept(&store, of_tenant("b")).await;
    store.pause_queue(&a, &queue, true).await.unwrap();
    assert_eq!(tenants(&claim(&store, 10).await), ["b"]);
    store.pause_queue(&a, &queue, false).await.unwrap();
    assert_eq!(tenants(&claim(&store, 10).await), ["a"]);
}

async fn next_due_at(store: &SqliteStore) -> Option<Timestamp> {
    store.next_due_at(store.now()).await.unwrap()
}

#[tokio::test]
async fn scheduled_job_gets_in_line_when_its_time_comes() {
    let store = memory();
    let start = Start::In(Duration::from_mins(1));
    let id = accept(&store, NewJob { start, ..new_job() }).await;
    let claimed = claim(&store, 1).await;
    assert!(claimed.leases.is_empty());
    let due_at = store.now().after(Duration::from_mins(1));
    assert_eq!(next_due_at(&store).await, Some(due_at));
    store.clock.advance(Duration::from_mins(1));
    let claimed = claim(&store, 1).await;
    assert_eq!((ids(&claimed), next_due_at(&store).await), (vec![id], None));
}

#[tokio::test]
async fn queues_are_counted_over_all_kinds() {
    let store = memory();
    for kind in ["k1", "k1", "k2"] {
        accept(&store, in_lane("q1", kind)).await;
    }
    let start = Start::In(Duration::from_mins(1));
    accept(&store, NewJob { start, ..in_lane("q2", "k3") }).await;
    store.pause_queue(&TenantId::default(), &Name::new("q3").unwrap(), true).await.unwrap();
    claim_kinds(&store, 1, &[("k1", 1)]).await;
    let queues = store.queues(&TenantId::default()).await.unwrap();
    let seen: Vec<_> = queues
        .iter()
        .map(|q| (q.name.as_str(), q.paused, q.pending, q.running, q.oldest_due_at.is_some()))
        .collect();
    assert_eq!(
        seen,
        [("q1", false, 2, 1, true), ("q2", false, 1, 0, false), ("q3", true, 0, 0, false)]
    );
}

#[tokio::test]
async fn paused_jobs_wake_no_claimer_and_resumed_queues_leave_no_row() {
    let store = memory();
    let (us, queue) = (TenantId::default(), Name::default_queue());
    let start = Start::In(Duration::from_mins(1));
    accept(&store, NewJob { start, ..new_job() }).await;
    store.pause_queue(&us, &queue, true).await.unwrap();
    assert_eq!(next_due_at(&store).await, None);
    store.pause_queue(&us, &queue, false).await.unwrap();
    assert!(next_due_at(&store).await.is_some());
    let count = "SELECT count(*) FROM paused_queues";
    let rows = store.writer.call(move |tx| Ok(tx.one::<i64>(count, [])?));
    assert_eq!(rows.await.unwrap(), Some(0));
}
