//! One attempt of a command job.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::job::Json;
use longhaul::{Ctx, JobError};
use tokio::process::Command;
use tokio::sync::Mutex;

use super::process_group::ProcessGroup;
use super::stderr_reader::StderrReader;
use super::work_dir::AttemptDir;
use super::{
    CommandKind, PipelineStep, Program, RunAs, artifacts, display_name, exit_status, stdin,
};
use crate::unless_cancelled;

pub(super) async fn run(kind: Arc<CommandKind>, ctx: Ctx, input: Json) -> Result<Json, JobError> {
    let attempt = CommandAttempt::begin(&kind, &ctx, &input).await?;
    let result = match &kind.program {
        Program::Single { argv } => attempt.single(argv).await,
        Program::Pipeline { steps } => attempt.pipeline(steps).await,
    };
    let result = match result {
        Ok(result) => {
            let user = kind.run_as.as_ref().map(|run_as| &run_as.user);
            artifacts::store(&ctx, &attempt.artifacts, user).await.map(|()| result)
        }
        Err(error) => Err(error),
    };
    attempt.end().await;
    result
}

struct CommandAttempt<'a> {
    kind: &'a CommandKind,
    ctx: &'a Ctx,
    input: &'a Json,
    /// Running program. Not owned by the future of its step, because the engine drops that one when the step
    /// is cancelled or times out, and the program should stop gracefully then. Dropping the attempt kills
    /// it. Declared before the folder, so that it is killed before the folder is deleted.
    running: Mutex<Option<ProcessGroup>>,
    work_dir: AttemptDir,
    artifacts: PathBuf,
    payload: Option<PathBuf>,
    /// Set if the last program reported its own progress.
    reports_progress: AtomicBool,
    /// Set if there are artifacts when a program has ended.
    has_artifacts: AtomicBool,
}

impl<'a> CommandAttempt<'a> {
    async fn begin(kind: &'a CommandKind, ctx: &'a Ctx, input: &'a Json) -> Result<Self, JobError> {
        let work_dir = AttemptDir::create(kind, ctx.id(), ctx.attempt()).await?;
        let artifacts = artifacts::create_folder(work_dir.path()).await?;
        let payload = if ctx.job().has_payload {
            Some(ctx.payload().await?.file_in(work_dir.path()).await?)
        } else {
            None
        };
        if let Some(RunAs { user, .. }) = &kind.run_as {
            work_dir.give_to(user, [&artifacts].into_iter().chain(&payload)).await?;
        }
        let running = Mutex::new(None);
        let [reports_progress, has_artifacts] = [const { AtomicBool::new(false) }; 2];
        Ok(Self {
            kind,
            ctx,
            input,
            running,
            work_dir,
            artifacts,
            payload,
            reports_progress,
            has_artifacts,
        })
    }

    /// Runs the program outside of a step, because its output is the result and need not be stored twice.
    async fn single(&self, argv: &[String]) -> Result<Json, JobError> {
        unless_cancelled(self.ctx, self.execute(argv, &[])).await?
    }

    async fn pipeline(&self, steps: &[PipelineStep]) -> Result<Json, JobError> {
        let total = steps.len() as u64;
        let mut outputs: Vec<(&str, Json)> = Vec::with_capacity(steps.len());
        for (done, step) in (1..).zip(steps) {
            let output = self.step(step, done == total, &outputs).await?;
            outputs.push((&step.name, output));
            if !self.reports_progress.swap(false, Ordering::Relaxed) {
                self.ctx.progress_with(done, total, step.name.as_str());
            }
        }
        Ok(outputs.pop().map_or_else(Json::null, |(_, output)| output))
    }

    async fn step(
        &self,
        PipelineStep { name, argv, timeout }: &PipelineStep,
        is_last: bool,
        outputs: &[(&str, Json)],
    ) -> Result<Json, JobError> {
        let body = || async move {
            let output = self.execute(argv, outputs).await.map_err(|mut error| {
                error.message.insert_str(0, &format!("step {name:?}: "));
                error
            })?;
            self.has_artifacts.store(artifacts::exist(&self.artifacts).await?, Ordering::Relaxed);
            Ok::<_, JobError>(output)
        };
        // Artifacts are stored with the job's result. If the step were stored before, an attempt that continues after a
        // crash would complete the job without them.
        let is_stored_with_result = move || is_last && self.has_artifacts.load(Ordering::Relaxed);
        let call = self.ctx.step(name, body).unstored_if(is_stored_with_result);
        match timeout {
            Some(timeout) => call.timeout(*timeout).await,
            None => call.await,
        }
    }

    async fn execute(&self, argv: &[String], outputs: &[(&str, Json)]) -> Result<Json, JobError> {
        let path = argv.first().map_or("", String::as_str);
        let program = display_name(path);
        let stdin = stdin::text(self.input, outputs, self.ctx.job())?;
        let mut running = self.running.lock().await;
        let group = ProcessGroup::spawn(self.command(path, argv.get(1..).unwrap_or_default()))
            .map_err(|error| exit_status::not_started(program, &error))?;
        let mut reader = StderrReader::new(self.ctx);
        let ended = running
            .insert(group)
            .exchange(&stdin, self.kind.stdout_bytes_max, &mut reader)
            .await
            // A program that still runs is stopped at the end of the attempt.
            .map_err(|fault| exit_status::exchange_failed(program, &fault))?;
        *running = None;
        self.reports_progress.store(reader.reports_progress(), Ordering::Relaxed);
        exit_status::into_result(program, ended, reader.tail())
    }

    fn command(&self, program: &str, args: &[String]) -> Command {
        let mut command = match &self.kind.run_as {
            None => Command::new(program),
            Some(RunAs { user, launcher }) => {
                let mut words = launcher.iter();
                let mut command = Command::new(words.next().map_or(OsStr::new(""), |word| word));
                command.args(words).args(user.launcher_args()).arg("--").arg(program);
                command
            }
        };
        command
            .args(args)
            .current_dir(self.work_dir.path())
            .env_clear()
            .env("TMPDIR", self.work_dir.path())
            .envs(&self.kind.env)
            .env("LONGHAUL_JOB_ID", self.ctx.id().to_string())
            .env("LONGHAUL_ATTEMPT", self.ctx.attempt().to_string())
            .env("LONGHAUL_ARTIFACTS", &self.artifacts)
            .envs(self.payload.iter().map(|path| ("LONGHAUL_PAYLOAD", path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    async fn end(self) {
        if let Some(group) = self.running.into_inner() {
            group.stop(self.kind.stop_grace).await;
        }
        self.work_dir.delete().await;
    }
}
