//! Machines whose cores are all busy with other processes.

use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Status, SubmitRequest};
use serde_json::json;
use tokio::process::{Child, Command};

use super::super::submit::end;
use crate::harness::{Cluster, Installation, SHORT_LEASES};

/// Loops for each core, so that the processes under test get a small share of it.
const LOOPS_PER_CORE: usize = 4;

/// Processes that keep every core busy until they are dropped.
struct BusyCores {
    _loops: Vec<Child>,
}

impl BusyCores {
    fn start() -> Self {
        let cores = std::thread::available_parallelism().unwrap().get();
        let start = |_| {
            let mut spin = Command::new("sh");
            spin.args(["-c", "while :; do :; done"]).kill_on_drop(true);
            spin.spawn().unwrap()
        };
        Self { _loops: (0..cores * LOOPS_PER_CORE).map(start).collect() }
    }
}

/// A job in one step that takes more than two leases of [`SHORT_LEASES`].
fn long_job() -> SubmitRequest {
    let mut request = SubmitRequest::new("demo", &json!({"steps": 1, "sleep": "4s"})).unwrap();
    request.max_attempts = Some(5);
    request
}

#[tokio::test]
async fn leases_are_kept_on_sqlite_while_all_cores_are_busy() {
    let install = Installation::with(SHORT_LEASES);
    let _server = install.start().await;
    let job = install.client().submit(&long_job(), &SubmitOptions::default()).await.unwrap();
    let _busy = BusyCores::start();
    let ended = end(&install.client(), &job.job_id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Completed, 1), "{ended:?}");
}

/// The other replica would rescue the job if its lease expired.
#[tokio::test]
async fn leases_are_kept_on_postgres_while_all_cores_are_busy() {
    let cluster = Cluster::new(SHORT_LEASES).await;
    let _api = cluster.api().await;
    let _workers = (cluster.worker("worker-1").await, cluster.worker("worker-2").await);
    let job = cluster.client().submit(&long_job(), &SubmitOptions::default()).await.unwrap();
    let _busy = BusyCores::start();
    let ended = end(&cluster.client(), &job.job_id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Completed, 1), "{ended:?}");
}
