//! Several replicas of the real binary on one Postgres database: one API server and workers.

use longhaul_client::Client;
use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Job, SubmitRequest};
use serde_json::json;

use super::{Installation, LONGHAUL, TestDatabase, TestProcess};

/// Configuration with leases that expire while a test waits.
pub(crate) const SHORT_LEASES: &str =
    "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";

/// One database and the replicas that share it.
pub(crate) struct Cluster {
    pub(crate) install: Installation,
    database: TestDatabase,
}

impl Cluster {
    /// Creates the database, and a directory with this `longhaul.toml` for all replicas.
    pub(crate) async fn new(config: &str) -> Self {
        let database = TestDatabase::create().await;
        Self { install: Installation::with(config), database }
    }

    pub(crate) fn client(&self) -> Client {
        self.install.client()
    }

    pub(crate) fn database(&self) -> String {
        self.database.url()
    }

    /// Starts a replica that serves the API and runs no jobs.
    pub(crate) async fn api(&self) -> TestProcess {
        let mut command = self.install.serve();
        command.args(["--role", "api", "--replica", "api"]);
        command.env("LONGHAUL_DATABASE", self.database());
        self.install.wait_ready(TestProcess::spawn(command)).await
    }

    /// Starts a replica that runs jobs.
    pub(crate) async fn worker(&self, name: &str) -> TestProcess {
        let mut command = self.install.command(LONGHAUL);
        command.args(["serve", "--role", "worker", "--replica", name]);
        command.env("LONGHAUL_DATABASE", self.database());
        let mut server = TestProcess::spawn(command);
        let ready = server.line().await.expect("a worker should become ready");
        assert!(ready.contains("is ready: worker"), "{ready}");
        server
    }

    /// Submits a demo job with this many steps, each of which takes `sleep`.
    pub(crate) async fn submit(&self, steps: u32, sleep: &str) -> Job {
        let input = json!({"steps": steps, "sleep": sleep});
        let mut request = SubmitRequest::new("demo", &input).unwrap();
        request.max_attempts = Some(5);
        self.client().submit(&request, &SubmitOptions::default()).await.unwrap()
    }

    /// Returns the replica of the job's last attempt.
    pub(crate) async fn runner(&self, id: &str) -> String {
        let attempts = self.client().attempts(id).await.unwrap();
        attempts.last().and_then(|attempt| attempt.replica.clone()).unwrap()
    }

    /// Asserts that the job has all of its steps, and that no finished step ran again.
    pub(crate) async fn assert_no_step_ran_twice(&self, id: &str, steps: usize) {
        let stored = self.client().steps(id).await.unwrap();
        assert_eq!(stored.len(), steps, "{stored:?}");
        assert!(stored.is_sorted_by_key(|step| step.attempt), "{stored:?}");
    }
}
