//! The kind `command`: runs a program, or a durable pipeline of programs.
//!
//! # Input of a program
//!
//! - Standard input is `{"input": …, "steps": {…}, "job": {…}}`: the job's input, the outputs of the earlier
//!   pipeline steps by name, and [the job](self#the-job).
//! - `LONGHAUL_JOB_ID` and `LONGHAUL_ATTEMPT` are in its environment, with [`CommandKind::env`]. Of the server's
//!   environment it gets only `PATH`, `HOME`, `LANG`, `LC_ALL` and `TZ`, so that programs do not see the server's
//!   secrets.
//! - `LONGHAUL_PAYLOAD` is the path of the uploaded payload, if the job has one.
//! - `LONGHAUL_ARTIFACTS` is the path of a folder whose files become the job's artifacts when it completes. It may
//!   contain files only, no folders and no links. It is empty at the start of each attempt, so the last program
//!   of a pipeline should write the artifacts. Then this program is not a finished step before the job completes, and runs
//!   again after a crash that comes in between.
//! - The working directory is a new folder, also its `TMPDIR`, that is deleted when the attempt ends. The
//!   programs of a pipeline share it. Data that a later attempt needs belongs on standard output.
//!
//! The program is started with fixed arguments and without a shell. It runs as the user of the server or, if that is
//! root, as [another user](CommandKind::user), who owns the working folder, the payload and the folder for artifacts.
//!
//! # Output of a program
//!
//! - Standard output is its result, as JSON. Empty output is `null`.
//! - On standard error, a line `::progress 3/10 text` (or `::progress 3`) sets the job's progress and a line
//!   `::phase text` its phase (up to 100 phases of 64 characters). All other lines are its log. The last 20 lines
//!   are part of the error of a failed program, and all lines are traced below `longhaul_kinds::command` at level
//!   TRACE, which is off by default because logs may contain inputs.
//! - Exit code 0 completes the job, 75 (`EX_TEMPFAIL`) fails the attempt with a retry, all others fail without one.
//!   A program that is killed by a signal is retried, because the cause (often a lack of memory) may pass.
//!
//! # Stopping a program
//!
//! It runs in its own process group, and the whole group is stopped. When the job is cancelled or a step times
//! out: SIGTERM, then SIGKILL after [`CommandKind::stop_grace`]. When the attempt times out, or the lease is lost
//! or returned: SIGKILL at once, because another attempt may start. Processes that a program leaves in its group
//! are killed when it exits.
//!
//! # After a crash
//!
//! A server that is killed with SIGKILL cannot stop its programs. They may run until their pipes break, and their
//! output is lost. On Linux, the next server on the same data kills them before it runs any job
//! ([`clear_work_root`]), so that a job does not run beside its earlier attempt. It finds them by their `TMPDIR`,
//! which child processes inherit. A process escapes if it clears its environment, changes `TMPDIR` (also by
//! [`CommandKind::env`]), deletes its working folder, or is not readable for the server (a setuid program). So
//! programs should be idempotent in their external effects, for example by job id.
//!
//! # The job
//!
//! `{"jobId", "kind", "queue", "attempt", "maxAttempts", "labels", "idempotencyKey", "createdAt"}`

mod artifacts;
mod attempt;
mod exit_status;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod orphans;
mod process_group;
mod program_user;
mod stderr_protocol;
mod stderr_reader;
mod stdin;
mod work_dir;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::{Json, Limits};
use longhaul::{Ctx, Kind};

pub use program_user::{ProgramUser, ProgramUserError};
pub use work_dir::clear_work_root;

/// Variables that programs inherit from the server.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// Well below the time that the engine waits for a cancelled handler.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Builder of a kind whose jobs run programs.
///
/// ```
/// # use std::time::Duration;
/// use longhaul_kinds::command::{CommandKind, PipelineStep, Program};
///
/// let resize = Program::Single { argv: vec!["./resize".into(), "--fast".into()] };
/// let resize = CommandKind::new("resize", resize, "/var/lib/longhaul/work").build()?;
///
/// let steps = vec![
///     PipelineStep::new("extract", ["./extract"]),
///     PipelineStep::new("index", ["./index"]).timeout(Duration::from_mins(1)),
/// ];
/// let pipeline = CommandKind::new("pipeline", Program::Pipeline { steps }, "/var/lib/longhaul/work")
///     .env("INDEX_URL", "http://127.0.0.1:9200")
///     .build()?
///     .concurrency(4);
/// # Ok::<(), longhaul_kinds::command::CommandError>(())
/// ```
#[must_use = "call `build` to create the kind"]
#[derive(Debug, Clone)]
pub struct CommandKind {
    name: String,
    program: Program,
    work_root: PathBuf,
    env: BTreeMap<OsString, OsString>,
    stdout_bytes_max: usize,
    stop_grace: Duration,
    run_as: Option<RunAs>,
}

/// User of the programs, and the command that starts them as this user.
#[derive(Debug, Clone)]
struct RunAs {
    user: ProgramUser,
    launcher: Vec<OsString>,
}

/// Programs of a job. The first element of each `argv` is looked up in `PATH` or, if it contains a `/`,
/// relative to the folder in which the server was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// One program, whose output is the job's result.
    Single { argv: Vec<String> },
    /// Programs in sequence. Each output is a checkpoint, so that another attempt continues behind it; the
    /// last one is also the job's result.
    Pipeline { steps: Vec<PipelineStep> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineStep {
    /// Unique in the pipeline. Key of its output for later programs.
    pub name: String,
    pub argv: Vec<String>,
    /// Defaults to the timeout of the attempt.
    pub timeout: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{0} has no program to run")]
    NoProgram(String),
    #[error("the pipeline of kind {0:?} has no steps")]
    NoSteps(String),
    #[error("the pipeline of kind {kind:?} has two steps named {step:?}")]
    DuplicateStep { kind: String, step: String },
    #[error("cannot make {path:?} absolute")]
    Path {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl PipelineStep {
    pub fn new(name: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { name: name.into(), argv, timeout: None }
    }

    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl CommandKind {
    /// Runs `program` for each job, in new folders below `work_root`.
    pub fn new(name: impl Into<String>, program: Program, work_root: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program,
            work_root: work_root.into(),
            env: BTreeMap::new(),
            stdout_bytes_max: Limits::default().result_bytes_max,
            stop_grace: STOP_GRACE,
            run_as: None,
        }
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Limits the standard output of one program. Should not exceed the engine's `result_bytes_max` and
    /// `step_bytes_max`, and has the same default.
    pub fn stdout_bytes_max(mut self, bytes: usize) -> Self {
        self.stdout_bytes_max = bytes;
        self
    }

    /// Time between SIGTERM and SIGKILL. Defaults to 2 s.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Runs the programs as another user. `launcher` is a command that calls [`ProgramUser::exec`] with its
    /// further arguments: the ids of the user and its group, the ids of its groups separated by commas, `--`,
    /// the program and the program's arguments.
    ///
    /// The working folder belongs to the user, who must be able to enter the ancestors of `work_root`. `HOME` is the
    /// home of the user.
    pub fn user(
        mut self,
        user: ProgramUser,
        launcher: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let launcher = launcher.into_iter().map(Into::into).collect();
        self.run_as = Some(RunAs { user, launcher });
        self
    }

    /// Checks the configuration and creates the kind. Does not look for the programs: a missing one fails
    /// the jobs that need it.
    pub fn build(mut self) -> Result<Kind, CommandError> {
        self.program.resolve(&self.name)?;
        self.work_root = absolute(&self.work_root)?;
        if let Some(RunAs { user, .. }) = &self.run_as {
            self.env.entry("HOME".into()).or_insert_with(|| user.home().into());
        }
        // Read once, so that all jobs get the same values.
        for name in INHERITED {
            // tidy: allow(environment) inherited by programs, not configuration
            if let Some(value) = std::env::var_os(name) {
                self.env.entry(name.into()).or_insert(value);
            }
        }
        let (name, description) = (self.name.clone(), self.program.description());
        let kind = Arc::new(self);
        let run = move |ctx: Ctx, input: Json| attempt::run(Arc::clone(&kind), ctx, input);
        Ok(Kind::new(&name, run).description(description))
    }
}

impl Program {
    /// Checks the programs and makes their paths absolute.
    fn resolve(&mut self, kind: &str) -> Result<(), CommandError> {
        match self {
            Self::Single { argv } => resolve(argv, || format!("the kind {kind:?}"))?,
            Self::Pipeline { steps } if steps.is_empty() => {
                return Err(CommandError::NoSteps(kind.to_owned()));
            }
            Self::Pipeline { steps } => {
                let mut names = HashSet::new();
                for PipelineStep { name, argv, .. } in steps {
                    if !names.insert(name.clone()) {
                        let (kind, step) = (kind.to_owned(), name.clone());
                        return Err(CommandError::DuplicateStep { kind, step });
                    }
                    resolve(argv, || format!("the step {name:?} of the kind {kind:?}"))?;
                }
            }
        }
        Ok(())
    }

    /// Names the programs without their folders and their arguments, because tenants see it.
    fn description(&self) -> String {
        match self {
            Self::Single { argv } => {
                format!("runs {}", display_name(argv.first().map_or("", String::as_str)))
            }
            Self::Pipeline { steps } => {
                let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
                format!("runs the steps {}", names.join(", "))
            }
        }
    }
}

/// Returns the name of a program without its folder, which tenants need not know.
fn display_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Makes the program's path absolute, because it is started in another folder.
fn resolve(argv: &mut [String], owner: impl FnOnce() -> String) -> Result<(), CommandError> {
    let program = argv.first_mut().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| CommandError::NoProgram(owner()))?;
    if program.contains('/') {
        let path = absolute(Path::new(program.as_str()))?.into_os_string();
        *program = path.into_string().map_err(|path| CommandError::Path {
            path: path.into(),
            source: io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"),
        })?;
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|source| CommandError::Path { path: path.to_owned(), source })
}
