//! Test programs, engines, and a probe for the lifetime of processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use longhaul::job::{Json, Record};
use longhaul::{Engine, JobHandle, Kind, Retry, Status};
use longhaul_kinds::command::{CommandKind, PipelineStep, Program};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Folder with test programs and their files.
pub(crate) struct TestPrograms(TempDir);

impl TestPrograms {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn work_root(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a shell script. `$DIR` is this folder.
    pub(crate) fn program(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\nDIR='{}'\n{text}\n", self.0.path().display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    pub(crate) fn step(&self, name: &str, text: &str) -> PipelineStep {
        PipelineStep::new(name, [self.program(name, text)])
    }

    /// Kind `work` with this script.
    pub(crate) fn single(&self, text: &str) -> CommandKind {
        let argv = vec![self.program("program", text)];
        CommandKind::new("work", Program::Single { argv }, self.work_root())
    }

    /// Kind `work` with these steps.
    pub(crate) fn pipeline(&self, steps: Vec<PipelineStep>) -> CommandKind {
        CommandKind::new("work", Program::Pipeline { steps }, self.work_root())
    }

    /// Runs a job of the kind `work`.
    pub(crate) async fn run(&self, kind: CommandKind, input: Value) -> Record {
        let engine = start(kind.build().unwrap()).await;
        let record = engine.submit_raw("work", &input).await.unwrap().wait().await.unwrap();
        engine.stop().await;
        record
    }

    /// Probe for a script that runs `exec 3>"$DIR/life"`.
    pub(crate) fn probe(&self) -> ProcessProbe {
        ProcessProbe::new(self.path("life"))
    }
}

/// In-memory engine with immediate retries.
pub(crate) async fn start(kind: Kind) -> Engine {
    Engine::builder().memory().register(with_immediate_retries(kind)).start().await.unwrap()
}

/// Three attempts, with no time between them.
pub(crate) fn with_immediate_retries(kind: Kind) -> Kind {
    kind.retry(Retry { max_attempts: 3, ..Retry::NEVER })
}

/// Waits until the job has started.
pub(crate) async fn running(job: &JobHandle) {
    let mut watcher = job.watch();
    while let Some(record) = watcher.next().await {
        if record.unwrap().job.status != Status::Pending {
            return;
        }
    }
}

pub(crate) fn result(record: &Record) -> Value {
    assert_eq!(record.job.status, Status::Completed, "{:?}", record.job.error);
    record.result.as_ref().map(Json::to).unwrap().unwrap()
}

/// Detects the start of a program and the exit of its last process: it reads from a named pipe, which ends
/// when the last writer closes it.
pub(crate) struct ProcessProbe {
    started: oneshot::Receiver<()>,
    ended: JoinHandle<String>,
}

impl ProcessProbe {
    fn new(path: PathBuf) -> Self {
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let (sender, started) = oneshot::channel();
        let ended = tokio::task::spawn_blocking(move || {
            let mut pipe = BufReader::new(fs::File::open(path).unwrap());
            pipe.read_line(&mut String::new()).unwrap();
            sender.send(()).ok();
            let mut rest = String::new();
            pipe.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { started, ended }
    }

    /// Waits for the first line.
    pub(crate) async fn started(&mut self) {
        (&mut self.started).await.unwrap();
    }

    /// Waits for the exit of all processes, and returns the text after the first line.
    pub(crate) async fn ended(self) -> String {
        self.ended.await.unwrap()
    }
}
