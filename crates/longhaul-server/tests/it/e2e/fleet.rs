//! Several processes on one Postgres database: one that answers, others that work.

use longhaul_client::Client;
use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Job, Status, SubmitRequest};
use serde_json::json;

use super::home::{Home, LONGHAUL, Server, ran};

/// Leases short enough to wait for.
pub(crate) const SHORT_LEASES: &str =
    "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";

/// A database of its own and the processes that share it.
pub(crate) struct Fleet {
    pub(crate) home: Home,
    admin: String,
    name: String,
}

impl Fleet {
    /// A database, and this as everybody's `longhaul.toml`.
    pub(crate) async fn new(config: &str) -> Self {
        let admin = std::env::var("TEST_POSTGRES_URL").expect(
            "TEST_POSTGRES_URL should be the address of a private cluster: \
             `make test-rust` starts one, or `scripts/postgres start DIR` prints its address",
        );
        let name = format!("fleet_{:016x}", rand::random::<u64>());
        let fleet = Self { home: Home::with(config), admin, name };
        fleet.administer(&format!("CREATE DATABASE {}", fleet.name)).await;
        fleet
    }

    pub(crate) fn client(&self) -> Client {
        self.home.client()
    }

    async fn administer(&self, sql: &str) {
        let mut psql = self.home.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--command", sql, &self.admin]);
        let ran = ran(psql).await.unwrap();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    pub(crate) fn database(&self) -> String {
        let (cluster, _) = self.admin.rsplit_once('/').unwrap();
        format!("{cluster}/{}", self.name)
    }

    /// Starts the process that answers and runs nothing.
    pub(crate) async fn api(&self) -> Server {
        let mut command = self.home.serve();
        command.args(["--role", "api", "--replica", "api"]);
        command.env("LONGHAUL_DATABASE", self.database());
        self.home.until_ready(Server::spawn(command)).await
    }

    /// Starts a process that runs jobs.
    pub(crate) async fn worker(&self, name: &str) -> Server {
        let mut command = self.home.command(LONGHAUL);
        command.args(["serve", "--role", "worker", "--replica", name]);
        command.env("LONGHAUL_DATABASE", self.database());
        let mut server = Server::spawn(command);
        let ready = server.line().await.expect("a worker should get ready");
        assert!(ready.contains("is ready: worker"), "{ready}");
        server
    }

    /// Submits a job of so many steps that take a while each.
    pub(crate) async fn submit(&self, steps: u32, sleep: &str) -> Job {
        let input = json!({"steps": steps, "sleep": sleep});
        let mut request = SubmitRequest::new("demo", &input).unwrap();
        request.max_attempts = Some(5);
        self.client().submit(&request, &SubmitOptions::default()).await.unwrap()
    }

    /// Who runs the job's last attempt, or ran it.
    pub(crate) async fn runner(&self, id: &str) -> String {
        let attempts = self.client().attempts(id).await.unwrap();
        attempts.last().and_then(|attempt| attempt.replica.clone()).unwrap()
    }

    /// Asserts that the job has all of its steps, and that none of them ran again after it had finished.
    pub(crate) async fn no_step_ran_twice(&self, id: &str, steps: usize) {
        let kept = self.client().steps(id).await.unwrap();
        assert_eq!(kept.len(), steps, "{kept:?}");
        assert!(kept.is_sorted_by_key(|step| step.attempt), "{kept:?}");
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let psql = std::process::Command::new("psql")
            .args(["--no-psqlrc", "--quiet", "--command", &sql, &self.admin])
            .status();
        assert!(psql.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Whether an attempt went on until its end.
pub(crate) fn completed(job: &Job) -> bool {
    job.status == Status::Completed
}
