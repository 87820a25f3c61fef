//! What the tests share: a folder for programs, an engine for a kind, a witness of a program's life.

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

/// A folder with programs and what they leave behind.
pub(crate) struct Workshop(TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn work_root(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a program. In its text, `$SHOP` is this folder.
    pub(crate) fn program(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\nSHOP='{}'\n{text}\n", self.0.path().display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    pub(crate) fn step(&self, name: &str, text: &str) -> PipelineStep {
        PipelineStep::new(name, [self.program(name, text)])
    }

    /// The kind `work` whose only program has this text.
    pub(crate) fn single(&self, text: &str) -> CommandKind {
        let argv = vec![self.program("program", text)];
        CommandKind::new("work", Program::Single { argv }, self.work_root())
    }

    /// The kind `work` with these steps.
    pub(crate) fn pipeline(&self, steps: Vec<PipelineStep>) -> CommandKind {
        CommandKind::new("work", Program::Pipeline { steps }, self.work_root())
    }

    /// Runs a job of the kind `work` to its end.
    pub(crate) async fn run(&self, kind: CommandKind, input: Value) -> Record {
        let engine = start(kind.build().unwrap()).await;
        let record = engine.submit_raw("work", &input).await.unwrap().wait().await.unwrap();
        engine.stop().await;
        record
    }

    /// A witness that a program talks to by `exec 3>"$SHOP/life"`.
    pub(crate) fn witness(&self) -> Witness {
        Witness::new(self.path("life"))
    }
}

/// An engine in memory that tries again without waiting.
pub(crate) async fn start(kind: Kind) -> Engine {
    Engine::builder().memory().register(at_once(kind)).start().await.unwrap()
}

/// Three attempts, with no time between them.
pub(crate) fn at_once(kind: Kind) -> Kind {
    kind.retry(Retry { max_attempts: 3, ..Retry::NEVER })
}

/// Waits until the job is running or has ended.
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

/// Knows when a program has begun and when the last of its processes is gone: it reads from a
/// pipe with a name, which ends when nobody holds its other end any more.
pub(crate) struct Witness {
    begun: oneshot::Receiver<()>,
    ended: JoinHandle<String>,
}

impl Witness {
    fn new(path: PathBuf) -> Self {
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (tell, begun) = oneshot::channel();
        let ended = tokio::task::spawn_blocking(move || {
            let mut pipe = BufReader::new(fs::File::open(path).unwrap());
            pipe.read_line(&mut String::new()).unwrap();
            tell.send(()).ok();
            let mut rest = String::new();
            pipe.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { begun, ended }
    }

    /// Waits for the program's first line.
    pub(crate) async fn begun(&mut self) {
        (&mut self.begun).await.unwrap();
    }

    /// Waits until all processes are gone, and returns what they said after the first line.
    pub(crate) async fn ended(self) -> String {
        self.ended.await.unwrap()
    }
}
