//! Workers that die, sleep and leave, while another one and the API stay.

mod busy_cores;
mod event_streams;
mod late_database;

use longhaul_client::wire::Status;
use rustix::process::Signal;

use super::submit::{end, until};
use super::watch::{Watch, legal_history, saw_all};
use crate::harness::{Cluster, LONGHAUL, SHORT_LEASES, TestProcess};

/// Two workers by name.
struct Pair(Vec<(String, TestProcess)>);

impl Pair {
    async fn start(cluster: &Cluster) -> Self {
        let mut workers = Vec::new();
        for name in ["worker-1", "worker-2"] {
            workers.push((name.to_owned(), cluster.worker(name).await));
        }
        Self(workers)
    }

    /// Takes the worker of this name out; the other one stays.
    fn take(&mut self, name: &str) -> TestProcess {
        let at = self.0.iter().position(|(known, _)| known == name).unwrap();
        self.0.remove(at).1
    }

    fn left(&self) -> &str {
        &self.0[0].0
    }
}

#[tokio::test]
async fn job_of_a_killed_worker_is_rescued_without_repeating_steps() {
    let cluster = Cluster::new(SHORT_LEASES).await;
    let _api = cluster.api().await;
    let mut workers = Pair::start(&cluster).await;
    let job = cluster.submit(10, "150ms").await;
    let id = &job.job_id;
    let mut watch = Watch::new(&cluster.install, id, Some(0));
    let mut seen = Vec::new();
    while seen.last().is_none_or(|job: &longhaul_client::wire::Job| {
        job.progress.as_ref().is_none_or(|progress| progress.done < 3)
    }) {
        seen.push(watch.next().await.unwrap());
    }
    let killed = cluster.runner(id).await;
    workers.take(&killed).kill9().await;

    seen.extend(watch.rest().await);
    let history = legal_history(&cluster.install, id).await;
    saw_all(&seen, &history);
    let last = seen.last().unwrap();
    assert_eq!(last.status, Status::Completed, "{last:?}");
    assert_eq!(last.attempt, 2);
    assert_eq!(cluster.runner(id).await, workers.left());
    cluster.assert_no_step_ran_twice(id, 10).await;
    let steps = cluster.client().steps(id).await.unwrap();
    assert!(steps.iter().filter(|step| step.attempt == 1).count() >= 3, "{steps:?}");
}

#[tokio::test]
async fn worker_paused_past_its_lease_writes_nothing() {
    let cluster = Cluster::new(SHORT_LEASES).await;
    let _api = cluster.api().await;
    let mut workers = Pair::start(&cluster).await;
    let job = cluster.submit(8, "200ms").await;
    let id = &job.job_id;
    until(&cluster.client(), id, |job| job.progress.is_some()).await;
    let paused_name = cluster.runner(id).await;
    let paused = workers.take(&paused_name);
    paused.signal(Signal::STOP);
    until(&cluster.client(), id, |job| job.status == Status::Running && job.attempt == 2).await;
    assert_eq!(cluster.runner(id).await, workers.left());
    // The worker continues in the middle of a step that another worker runs by now.
    paused.signal(Signal::CONT);
    let ended = end(&cluster.client(), id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:?}");
    assert_eq!(ended.attempt, 2);

    // After another job, the worker has sent all of its updates about the first one.
    drop(workers);
    let other = cluster.submit(1, "0ms").await;
    let other = end(&cluster.client(), &other.job_id).await;
    assert_eq!(other.status, Status::Completed);
    assert_eq!(cluster.runner(&other.job_id).await, paused_name);

    let history = legal_history(&cluster.install, id).await;
    assert_eq!(history.last().unwrap().version, ended.version, "{history:?}");
    let attempts = cluster.client().attempts(id).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|one| (one.attempt, one.status)).collect();
    assert_eq!(told, [(1, Some(Status::Pending)), (2, Some(Status::Completed))], "{attempts:?}");
    cluster.assert_no_step_ran_twice(id, 8).await;
}

#[tokio::test]
async fn job_of_a_stopped_worker_continues_elsewhere_without_charging_an_attempt() {
    // The default lease, because the test does not wait for it to expire.
    let cluster = Cluster::new("[worker]\nstop_grace = \"100ms\"\n").await;
    let _api = cluster.api().await;
    let mut workers = Pair::start(&cluster).await;
    let job = cluster.submit(4, "500ms").await;
    let id = &job.job_id;
    until(&cluster.client(), id, |job| job.progress.is_some()).await;
    let stopped = cluster.runner(id).await;
    let exited = workers.take(&stopped).sigterm().await;
    assert_eq!(exited.status.code(), Some(0), "{exited:?}");

    let ended = end(&cluster.client(), id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:?}");
    assert_eq!(ended.attempt, 1);
    let attempts = cluster.client().attempts(id).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|one| (one.attempt, one.status)).collect();
    assert_eq!(told, [(1, Some(Status::Pending)), (1, Some(Status::Completed))]);
    assert_eq!(cluster.runner(id).await, workers.left());
    cluster.assert_no_step_ran_twice(id, 4).await;
    legal_history(&cluster.install, id).await;
}

#[tokio::test]
async fn api_lists_all_replicas_and_workers_do_not_listen() {
    let cluster = Cluster::new("").await;
    let api = cluster.api().await;
    let workers = Pair::start(&cluster).await;
    let mut replicas = cluster.client().replicas().await.unwrap();
    replicas.retain(|replica| replica.alive);
    let told: Vec<_> =
        replicas.iter().map(|replica| (replica.name.as_str(), replica.role.as_str())).collect();
    assert_eq!(told, [("api", "api"), ("worker-1", "worker"), ("worker-2", "worker")]);
    assert_eq!(listening(&api), 1);
    for (name, worker) in &workers.0 {
        assert_eq!(listening(worker), 0, "{name}");
    }
}

/// Returns the number of sockets that a process listens on.
fn listening(server: &TestProcess) -> usize {
    let pid = server.pid().as_raw_nonzero();
    let table = ["tcp", "tcp6"].map(|table| {
        std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
    });
    // The fourth field is the state, where 0A is to listen; the tenth is the socket.
    let listening: Vec<String> = table
        .iter()
        .flat_map(|table| table.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.get(3) == Some(&"0A"))
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    open.filter(|socket| listening.iter().any(|known| socket.as_os_str() == known.as_str())).count()
}

#[tokio::test]
async fn jobs_are_finished_while_workers_are_killed_and_started_again() {
    let cluster = Cluster::new(SHORT_LEASES).await;
    let _api = cluster.api().await;
    let mut workers = Pair::start(&cluster).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(cluster.submit(5, "100ms").await.job_id);
    }
    for (round, id) in ids.iter().enumerate().take(3) {
        let running = |job: &longhaul_client::wire::Job| {
            job.status == Status::Running || job.status.is_terminal()
        };
        until(&cluster.client(), id, running).await;
        let (_, killed) = workers.0.remove(0);
        killed.kill9().await;
        let name = format!("worker-{}", round + 3);
        workers.0.push((name.clone(), cluster.worker(&name).await));
    }
    for id in &ids {
        let ended = end(&cluster.client(), id).await;
        assert_eq!(ended.status, Status::Completed, "{ended:?}");
        cluster.assert_no_step_ran_twice(id, 5).await;
        legal_history(&cluster.install, id).await;
    }
}

/// The lease of an hour ends only because the next process with its replica's name knows that the killed one has ended.
#[tokio::test]
async fn worker_that_starts_again_takes_over_from_its_killed_predecessor() {
    let cluster = Cluster::new("[lease]\nduration = \"1h\"\nsweep = \"200ms\"\n").await;
    let _api = cluster.api().await;
    let killed = cluster.worker("worker-1").await;
    let job = cluster.submit(6, "150ms").await;
    let id = &job.job_id;
    until(&cluster.client(), id, |job| job.progress.is_some()).await;
    killed.kill9().await;

    let next = cluster.worker("worker-1").await;
    let ended = end(&cluster.client(), id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Completed, 2), "{ended:?}");
    cluster.assert_no_step_ran_twice(id, 6).await;
    legal_history(&cluster.install, id).await;
    let mut replicas = cluster.client().replicas().await.unwrap();
    replicas.retain(|replica| replica.name == "worker-1");
    assert_eq!(replicas.len(), 1);
    assert!(replicas[0].alive);
    let log = next.sigterm().await.stderr;
    assert!(log.contains("replacing an earlier process with this name"), "{log}");
    assert!(!log.contains("waiting until its heartbeat expires"), "{log}");
}

#[tokio::test]
async fn worker_with_the_name_of_a_running_one_is_rejected() {
    let cluster = Cluster::new(SHORT_LEASES).await;
    let api = cluster.api().await;
    let worker = cluster.worker("worker-1").await;
    let mut command = cluster.install.command(LONGHAUL);
    command.args(["serve", "--role", "worker", "--replica", "worker-1"]);
    command.env("LONGHAUL_DATABASE", cluster.database());
    let rejected = TestProcess::spawn(command).wait().await;
    assert_eq!(rejected.status.code(), Some(1), "{rejected:?}");
    let name_is_taken = "another replica with the name \"worker-1\" is running";
    assert!(rejected.stderr.contains(name_is_taken), "{rejected:?}");
    // It has not ended the leases of the running one.
    let job = cluster.submit(2, "100ms").await;
    assert_eq!(end(&cluster.client(), &job.job_id).await.attempt, 1);
    drop((api, worker));
}
