//! Event streams of a replica that dies, which clients continue on another one.

use longhaul_client::wire::Status;
use serde_json::json;

use super::super::submit::submit;
use super::super::watch::{Watch, legal_history, saw_all};
use crate::harness::{Cluster, Installation, TestProcess};

/// Number of watchers, which have seen different numbers of events when their replica dies.
const WATCHERS: usize = 6;
/// A kind whose job has many transitions before, during and after the death of the replica.
const PHASES: &str = r#"
[kinds.phases]
command = ["sh", "-c", "for n in $(seq 40); do echo ::phase p$n >&2; sleep 0.05; done; echo 1"]
"#;

#[tokio::test]
async fn event_stream_of_a_killed_replica_continues_on_another_without_gap_or_duplicate() {
    let cluster = Cluster::new(PHASES).await;
    let killed = cluster.api().await;
    let other = Installation::new();
    let mut serve = other.serve();
    serve
        .args(["--role", "api", "--replica", "api-2"])
        .env("LONGHAUL_DATABASE", cluster.database());
    let _other_api = other.wait_ready(TestProcess::spawn(serve)).await;
    let _worker = cluster.worker("worker-1").await;
    let job = submit(&cluster.client(), "phases", json!({})).await;
    let id = &job.job_id;

    let mut watches = Vec::new();
    for events in 1..=WATCHERS {
        let mut watch = Watch::new(&cluster.install, id, Some(0));
        let mut seen = Vec::new();
        for _ in 0..events {
            seen.push(watch.next().await.unwrap());
        }
        watches.push((watch, seen));
    }
    killed.kill9().await;
    for (mut watch, mut seen) in watches {
        assert!(!seen.last().unwrap().status.is_terminal(), "the job outlives the replica");
        watch.reconnect_to(&other);
        seen.extend(watch.rest().await);
        let history = legal_history(&other, id).await;
        assert!(history.len() > 40, "{history:?}");
        saw_all(&seen, &history);
        assert_eq!(seen.last().unwrap().status, Status::Completed);
    }
}
