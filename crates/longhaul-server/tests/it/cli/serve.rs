//! The real binary: its one line, its signals and its exit codes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longhaul_client::Client;
use longhaul_client::wire::{Status, SubmitRequest};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

struct Process {
    child: Child,
    /// The line that it printed when it was ready.
    line: String,
    url: String,
}

impl Process {
    fn start(data: &std::path::Path) -> Self {
        Self::with(Stdio::null(), "20s", data)
    }

    fn with(stderr: impl Into<Stdio>, stop_grace: &str, data: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("LONGHAUL_WORKER_STOP_GRACE", stop_grace)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        Self { child, url: url.to_owned(), line }
    }

    fn client(&self) -> Client {
        Client::new(&self.url, None).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Its exit code and what else it printed.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// No server outlives a test that failed.
impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Submits a job that runs until it is stopped.
async fn run_long(client: &Client) -> String {
    let request = SubmitRequest::new("demo", &json!({"sleep": "1h"})).unwrap();
    let mut job =
        client.submit(&request, &longhaul_client::SubmitOptions::default()).await.unwrap();
    while job.status != Status::Running {
        job = client.job(&job.job_id, Some(Duration::from_secs(10))).await.unwrap();
    }
    job.job_id
}

#[tokio::test]
async fn serve_prints_one_line_and_exits_with_zero_on_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let server = Process::start(folder.path());
        let data = folder.path().display();
        let version = env!("CARGO_PKG_VERSION");
        let begin = format!("longhaul {version} is ready: dashboard {} (data {data}, ", server.url);
        assert!(server.line.starts_with(&begin), "{}", server.line);
        server.signal(signal);
        assert_eq!(server.end(), (Some(0), String::new()));
    }
}

#[tokio::test]
async fn second_signal_exits_at_once_and_the_job_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path());
    let job = run_long(&server.client()).await;
    server.signal(Signal::TERM);
    // It closes its port when it has taken the first signal.
    while server.client().kinds().await.is_ok() {}
    let asked = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(130));
    assert!(asked.elapsed() < Duration::from_secs(5));

    let server = Process::start(folder.path());
    let mut seen = server.client().job(&job, None).await.unwrap();
    while (seen.status, seen.attempt) != (Status::Running, 2) {
        seen = server.client().job(&job, Some(Duration::from_secs(10))).await.unwrap();
    }
    server.client().cancel(&job).await.unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

/// Regression: a log line that could not be written caused a panic in the logging thread and failed the job.
#[tokio::test]
async fn full_disk_for_logs_affects_neither_jobs_nor_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = Process::with(full, "10ms", folder.path());
    let job = run_long(&server.client()).await;
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));

    let server = Process::start(folder.path());
    let mut seen = server.client().job(&job, None).await.unwrap();
    while seen.status != Status::Running {
        seen = server.client().job(&job, Some(Duration::from_secs(10))).await.unwrap();
    }
    assert_eq!(seen.attempt, 1, "a job that is given back is not charged");
    server.client().cancel(&job).await.unwrap();
}
