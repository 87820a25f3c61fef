//! The side of the server: children that draw, kept warm.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use longhaul::JobError;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::worker::Answer;
use super::{Code, Limits, RenderError, Request};

/// How many children wait for work: reading fonts takes longer than drawing.
const KEPT_MAX: usize = 4;
/// How many pictures one draws before it makes room for another, with memory in order.
const PICTURES_MAX: u32 = 500;
/// The longest line in front of a picture: a message and an excerpt.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Children that wait for work, and what to start more with.
pub(super) struct Pool {
    argv: Vec<OsString>,
    limits: Limits,
    /// A std mutex: held to push or to pop, never across an await.
    waiting: Mutex<Vec<Worker>>,
}

/// One child. Dropped, it is killed.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pictures: u32,
}

/// Why there is no picture.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The source's fault, or its size's.
    Refused(RenderError),
    /// The machine's.
    Broken(io::Error),
}

impl Pool {
    pub(super) fn new(argv: Vec<OsString>, limits: Limits) -> Self {
        Self { argv, limits, waiting: Mutex::default() }
    }

    /// Lets a child draw it. Whoever drops this kills the child.
    pub(super) async fn picture(&self, request: &Request) -> Result<Vec<u8>, Trouble> {
        request.check(&self.limits).map_err(Trouble::Refused)?;
        let line = line_of(request).map_err(Trouble::Broken)?;
        let waiting = self.waiting().pop();
        let mut worker = match waiting {
            Some(worker) => worker,
            None => self.start().await.map_err(Trouble::Broken)?,
        };
        // One that has waited may have been ended by others, for its memory for instance.
        if worker.child.try_wait().map_err(Trouble::Broken)?.is_some() {
            worker = self.start().await.map_err(Trouble::Broken)?;
        }
        // The child ends itself when its processor time is over; this is for one that waits.
        let drawn = tokio::time::timeout(self.limits.time_max, worker.ask(&line, &self.limits));
        let Ok(answer) = drawn.await else { return Err(Trouble::Refused(took_too_long())) };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(worker.why_it_ended(error).await),
        };
        worker.pictures += 1;
        if worker.pictures < PICTURES_MAX {
            let mut waiting = self.waiting();
            if waiting.len() < KEPT_MAX {
                waiting.push(worker);
            }
        }
        answer.map_err(Trouble::Refused)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self) -> io::Result<Worker> {
        let (program, arguments) = self.argv.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(program)
            .args(arguments)
            // What the server knows by its environment is not for what draws strangers' sources.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (mut stdin, stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
        // Fewer bytes than a pipe holds: this waits for nobody.
        stdin.write_all(&line_of(&self.limits)?).await?;
        Ok(Worker { child, stdin, stdout: BufReader::new(stdout), pictures: 0 })
    }
}

impl Worker {
    async fn ask(
        &mut self,
        line: &[u8],
        limits: &Limits,
    ) -> io::Result<Result<Vec<u8>, RenderError>> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await?;
        let mut answer = Vec::new();
        (&mut self.stdout).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).await?;
        if answer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match serde_json::from_slice(&answer)? {
            Answer::Bytes(bytes) if bytes > limits.output_bytes_max => {
                Err(io::ErrorKind::InvalidData.into())
            }
            Answer::Bytes(bytes) => {
                let mut picture = vec![0; bytes];
                self.stdout.read_exact(&mut picture).await?;
                Ok(Ok(picture))
            }
            Answer::Error(error) => Ok(Err(error)),
        }
    }

    /// What its end says about the source that it was given.
    async fn why_it_ended(mut self, error: io::Error) -> Trouble {
        // It has closed its outputs, or speaks nonsense: either way it is over.
        if error.kind() == io::ErrorKind::InvalidData {
            self.child.start_kill().ok();
        }
        match self.child.wait().await {
            Ok(status) => verdict(status, error),
            Err(error) => Trouble::Broken(error),
        }
    }
}

fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn verdict(status: ExitStatus, error: io::Error) -> Trouble {
    use rustix::process::Signal;
    let by = status.signal().and_then(Signal::from_named_raw);
    if by == Some(Signal::XCPU) {
        return Trouble::Refused(took_too_long());
    }
    // What Rust does when there is no memory left, and when a stack is full.
    if by == Some(Signal::ABORT) || by == Some(Signal::SEGV) || by == Some(Signal::BUS) {
        let why = "the diagram takes more memory than is allowed, or nests too deep";
        return Trouble::Refused(RenderError::new(Code::TooLarge, why));
    }
    Trouble::Broken(error)
}

fn took_too_long() -> RenderError {
    RenderError::new(Code::TookTooLong, "the diagram was not drawn in time")
}

impl Trouble {
    pub(super) fn into_job_error(self) -> JobError {
        match self {
            Self::Refused(error) => error.into_job_error(),
            Self::Broken(error) => {
                JobError::retryable(format_args!("the process that draws failed: {error}"))
                    .with_code(Code::RendererFailed.as_str())
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limits", &self.limits).finish_non_exhaustive()
    }
}
