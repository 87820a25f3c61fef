//! Example jobs and captured command runs for tests.

use clap::Parser as _;
use longhaul::clock::Clock;
use longhaul::job::Timestamp;
use longhaul_client::wire::{Job, JobError, Progress, RawJson, Status, Step};

use super::{Cli, Exit, Ui, run};

/// Nine seconds after the submission of the example jobs.
pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-11-15T08:00:09.000Z").unwrap()
}

pub(crate) fn pending() -> Job {
    let id = "01KA3V8J5T0000000000000000";
    Job {
        job_id: id.to_owned(),
        kind: "graph".to_owned(),
        queue: "default".to_owned(),
        status: Status::Pending,
        phase: None,
        priority: 0,
        attempt: 0,
        max_attempts: 3,
        progress: None,
        labels: [("env", "prod"), ("team", "search")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        version: 1,
        idempotency_key: Some("order-4711".to_owned()),
        created_at: "2026-11-15T08:00:00.000Z".into(),
        run_at: "2026-11-15T08:00:00.000Z".into(),
        started_at: None,
        completed_at: None,
        expires_at: None,
        result: None,
        error: None,
        artifacts: Vec::new(),
        status_url: format!("/v1/jobs/{id}"),
        events_url: format!("/v1/jobs/{id}/events"),
        retry_after: Some(3),
        forked_from: None,
        parent_id: None,
    }
}

pub(crate) fn running() -> Job {
    let message = Some("src/lib.rs".to_owned());
    Job {
        status: Status::Running,
        phase: Some("parsing".to_owned()),
        attempt: 1,
        version: 4,
        progress: Some(Progress { done: 120, total: Some(400), message }),
        started_at: Some("2026-11-15T08:00:01.000Z".into()),
        ..pending()
    }
}

/// Ended well.
pub(crate) fn completed() -> Job {
    Job {
        status: Status::Completed,
        phase: None,
        progress: None,
        version: 7,
        completed_at: Some("2026-11-15T08:00:04.200Z".into()),
        expires_at: Some("2026-11-16T08:00:04.200Z".into()),
        result: Some(RawJson::from_text(r#"{"nodes":42,"languages":["rust"]}"#).unwrap()),
        retry_after: None,
        ..running()
    }
}

/// Ended badly.
pub(crate) fn failed() -> Job {
    let error = JobError {
        code: "worker-lost".to_owned(),
        message: "the worker stopped renewing its lease".to_owned(),
        retryable: true,
        attempt: 3,
    };
    Job { status: Status::Failed, attempt: 3, result: None, error: Some(error), ..completed() }
}

pub(crate) fn step(name: &str, output: &str) -> Step {
    Step {
        name: name.to_owned(),
        position: 0,
        output: RawJson::from_text(output).unwrap(),
        attempt: 1,
        started_at: "2026-11-15T08:00:01.000Z".into(),
        completed_at: "2026-11-15T08:00:02.500Z".into(),
    }
}

/// Exit status and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) async fn run_against(server: &str, args: &[&str]) -> CommandOutput {
    let args = [&["longhaul", "--server", server], args].concat();
    let cli = Cli::try_parse_from(args).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ui = Ui::captured(&mut out, &mut err, cli.global.json, Clock::manual(now()));
    let exit = match run(cli, &mut ui).await {
        Ok(exit) => exit,
        Err(error) => ui.report(&error),
    };
    CommandOutput {
        exit,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// Runs a command against an address without a server.
pub(crate) async fn run_without_server(args: &[&str]) -> CommandOutput {
    run_against("http://127.0.0.1:1", args).await
}
