//! The kind `command`: a program, or a durable pipeline of programs.
//!
//! # What a program gets
//!
//! - on stdin, `{"input": …, "steps": {…}, "job": {…}}`: the job's input, the outputs of the
//!   pipeline's steps so far by name, and [what job it is](self#the-job);
//! - `LONGHAUL_JOB_ID` and `LONGHAUL_ATTEMPT` in its environment, besides [`CommandKind::env`] and
//!   of the server's own environment only `PATH`, `HOME`, `LANG`, `LC_ALL` and `TZ`: a server's
//!   secrets are not its programs' business;
//! - what was uploaded with the job, if anything was, as a file whose path is in `LONGHAUL_PAYLOAD`;
//! - a folder, whose path is in `LONGHAUL_ARTIFACTS`: files in it become the job's artifacts when it
//!   completes. Files only, no folders and no links. What an earlier attempt put there is gone: a
//!   pipeline's artifacts are best made by its last program;
//! - a working folder of its own, which is also its `TMPDIR`, and which is deleted with all that
//!   is in it when the attempt ends. The programs of a pipeline share it; what a later attempt
//!   needs belongs on stdout, because an attempt starts with an empty folder.
//!
//! It is started with fixed arguments and without a shell.
//!
//! # What it says
//!
//! - stdout: its result, as JSON. Nothing at all is `null`.
//! - stderr: a line `::progress 3/10 text` (or `::progress 3`) is the job's progress, a line
//!   `::phase text` its phase (up to 100 of them, of 64 characters). The rest is its log: the last
//!   20 lines of it are in the error of a program that failed, and all of it is traced below
//!   `longhaul_kinds::command` at the level TRACE, which is off unless asked for, since what
//!   programs say may hold what jobs are about.
//! - exit code: 0 is completed, 75 (`EX_TEMPFAIL`) is failed but worth another attempt, everything
//!   else is failed. A program that a signal killed gets another attempt, since what killed it
//!   (often a machine short of memory) may not come again.
//!
//! # How it is stopped
//!
//! It runs in a process group of its own, and the whole group is stopped with it. When the job is
//! cancelled or a step takes too long: SIGTERM, then SIGKILL after [`CommandKind::stop_grace`].
//! When the attempt takes too long, or the lease is lost or given back: SIGKILL at once, because
//! another attempt may begin. Whatever a program leaves running in its group when it exits is
//! killed, too.
//!
//! # After a crash
//!
//! A server that is itself killed with SIGKILL cannot stop its programs: they may go on until they
//! find their pipes broken. Nobody hears them any more, so nothing that they say reaches the job.
//! On Linux, the next server on the same data kills them before it runs any job
//! ([`clear_work_root`]), so that a job does not run beside its older self. It knows them by their
//! `TMPDIR`, which the processes that they start inherit. Whoever has cleaned its environment, has
//! another `TMPDIR` (also by [`CommandKind::env`]), has deleted its working folder or may not be
//! looked at by the server (a setuid program) escapes. So a program should be idempotent in what
//! it does elsewhere, for example by its job's id.
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

pub use work_dir::clear_work_root;

/// What a program inherits of the server's environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// Well below the time that the engine gives a cancelled handler to return.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Describes a kind whose jobs are run by programs.
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
#[must_use = "describes a kind; `build` makes it"]
#[derive(Debug, Clone)]
pub struct CommandKind {
    name: String,
    program: Program,
    work_root: PathBuf,
    env: BTreeMap<String, String>,
    stdout_bytes_max: usize,
    stop_grace: Duration,
}

/// What runs a job. The first of each `argv` is a program: looked up in `PATH`, or, if it has a
/// `/`, relative to the folder in which the server was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// One program; its output is the job's result.
    Single {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// Programs one after the other. Each output is a checkpoint, so that another attempt goes on
    /// behind it; the last one is also the job's result.
    Pipeline {
        /// In this order.
        steps: Vec<PipelineStep>,
    },
}

/// One program of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineStep {
    /// Its name, unique in the pipeline; later programs find its output under it.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// How long it may take; otherwise only the attempt's own timeout counts.
    pub timeout: Option<Duration>,
}

/// What is wrong with the description of a command kind.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no program in an `argv`.
    #[error("{0} names no program to run")]
    NoProgram(String),
    /// A pipeline has no steps.
    #[error("the kind {0:?} is a pipeline without steps")]
    NoSteps(String),
    /// Two steps of a pipeline have one name.
    #[error("the pipeline of the kind {kind:?} has two steps {step:?}")]
    StepTwice {
        /// The kind.
        kind: String,
        /// The name that is there twice.
        step: String,
    },
    /// A relative path cannot be made absolute.
    #[error("cannot tell where {path:?} is")]
    Path {
        /// The path as it was given.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What attempts need to know, checked.
struct Setup {
    program: Program,
    work_root: PathBuf,
    env: Vec<(OsString, OsString)>,
    stdout_bytes_max: usize,
    stop_grace: Duration,
}

impl PipelineStep {
    /// A step without a timeout of its own.
    pub fn new(name: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { name: name.into(), argv, timeout: None }
    }

    /// How long it may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl CommandKind {
    /// A kind that `program` runs, in folders of its own below `work_root`.
    pub fn new(name: impl Into<String>, program: Program, work_root: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program,
            work_root: work_root.into(),
            env: BTreeMap::new(),
            stdout_bytes_max: Limits::default().result_bytes_max,
            stop_grace: STOP_GRACE,
        }
    }

    /// Adds a variable to the environment of the programs.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The most that one program may write to stdout. Should not be more than the engine's
    /// `result_bytes_max` and `step_bytes_max`, whose default it has.
    pub fn stdout_bytes_max(mut self, bytes: usize) -> Self {
        self.stdout_bytes_max = bytes;
        self
    }

    /// How long a program may take to end by itself after SIGTERM; 2 s if nobody says.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Checks the description and makes the kind. Touches no file: a program that is not there
    /// yet fails the jobs that need it.
    pub fn build(self) -> Result<Kind, CommandError> {
        let program = self.program.checked(&self.name)?;
        let description = program.description();
        // Inherited and not configuration: read here, once, so that all jobs get the same.
        let inherited = INHERITED.iter().filter_map(|name| {
            // tidy: allow(environment) what programs inherit is not our configuration
            Some((name.into(), std::env::var_os(name)?))
        });
        let given = self.env.into_iter().map(|(name, value)| (name.into(), value.into()));
        let setup = Arc::new(Setup {
            program,
            work_root: absolute(&self.work_root)?,
            env: inherited.chain(given).collect(),
            stdout_bytes_max: self.stdout_bytes_max,
            stop_grace: self.stop_grace,
        });
        let run = move |ctx: Ctx, input: Json| attempt::run(Arc::clone(&setup), ctx, input);
        Ok(Kind::new(&self.name, run).description(description))
    }
}

impl Program {
    fn checked(mut self, kind: &str) -> Result<Self, CommandError> {
        match &mut self {
            Self::Single { argv } => resolve(argv, || format!("the kind {kind:?}"))?,
            Self::Pipeline { steps } => {
                if steps.is_empty() {
                    return Err(CommandError::NoSteps(kind.to_owned()));
                }
                let mut names = HashSet::new();
                for PipelineStep { name, argv, .. } in steps {
                    if !names.insert(name.clone()) {
                        let (kind, step) = (kind.to_owned(), name.clone());
                        return Err(CommandError::StepTwice { kind, step });
                    }
                    resolve(argv, || format!("the step {name:?} of the kind {kind:?}"))?;
                }
            }
        }
        Ok(self)
    }

    /// Programs only: arguments may hold what not everybody who lists kinds should see.
    fn description(&self) -> String {
        match self {
            Self::Single { argv } => {
                format!("runs {}", argv.first().map_or("", String::as_str))
            }
            Self::Pipeline { steps } => {
                let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
                format!("runs the steps {}", names.join(", "))
            }
        }
    }
}

/// Makes the program's path absolute, since it will be started in another folder.
fn resolve(argv: &mut [String], whose: impl FnOnce() -> String) -> Result<(), CommandError> {
    let program = argv.first_mut().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| CommandError::NoProgram(whose()))?;
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
