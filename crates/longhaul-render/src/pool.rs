//! Pool of warm child processes that render untrusted sources.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::worker::WorkerReply;
use crate::{ErrorCode, RenderError, RenderLimits, RenderRequest};

/// Idle children kept for the next request, because loading fonts takes longer than rendering.
const IDLE_MAX: usize = 4;
/// Diagrams after which a child is replaced, so that its memory cannot grow without bound.
const RENDERS_MAX: u32 = 500;
/// Bytes of the JSON line in front of an image: a message and an excerpt.
const REPLY_BYTES_MAX: u64 = 64 * 1024;

/// Child processes that run [`run_worker`](crate::run_worker), started on demand.
pub struct WorkerPool {
    argv: Vec<OsString>,
    limits: RenderLimits,
    /// A std mutex: held to push or to pop, never across an await.
    idle: Mutex<Vec<Worker>>,
}

/// One child process, killed when dropped.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    renders: u32,
}

#[derive(Debug)]
pub enum PoolError {
    /// The source or its result is invalid, unsupported or too large. Another try fails as well.
    Rejected(RenderError),
    /// The child process could not be started, or it failed for a reason other than its source.
    Worker(io::Error),
}

impl WorkerPool {
    /// Creates an empty pool. `argv` is a program, with arguments, that calls
    /// [`run_worker`](crate::run_worker).
    pub fn new(argv: Vec<OsString>, limits: RenderLimits) -> Self {
        Self { argv, limits, idle: Mutex::default() }
    }

    /// Renders a diagram in a child process. Dropping the future kills the child.
    pub async fn render(&self, request: &RenderRequest) -> Result<Vec<u8>, PoolError> {
        request.check(&self.limits).map_err(PoolError::Rejected)?;
        let line = json_line(request).map_err(PoolError::Worker)?;
        let idle = self.idle().pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => self.start().await.map_err(PoolError::Worker)?,
        };
        // An idle child may have been killed, for example by the kernel when memory ran out.
        if worker.child.try_wait().map_err(PoolError::Worker)?.is_some() {
            worker = self.start().await.map_err(PoolError::Worker)?;
        }
        // The child limits its own CPU time; this timeout covers a child that blocks.
        let reply = tokio::time::timeout(self.limits.time_max, worker.send(&line, &self.limits));
        let Ok(reply) = reply.await else { return Err(PoolError::Rejected(timed_out())) };
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Err(worker.exit_reason(error).await),
        };
        worker.renders += 1;
        if worker.renders < RENDERS_MAX {
            let mut idle = self.idle();
            if idle.len() < IDLE_MAX {
                idle.push(worker);
            }
        }
        reply.map_err(PoolError::Rejected)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self) -> io::Result<Worker> {
        let (program, arguments) = self.argv.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(program)
            .args(arguments)
            // The server's environment may hold secrets, and the child reads untrusted sources.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (mut stdin, stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
        // Does not block, because the limits are shorter than a pipe's buffer.
        stdin.write_all(&json_line(&self.limits)?).await?;
        Ok(Worker { child, stdin, stdout: BufReader::new(stdout), renders: 0 })
    }
}

impl Worker {
    async fn send(
        &mut self,
        line: &[u8],
        limits: &RenderLimits,
    ) -> io::Result<Result<Vec<u8>, RenderError>> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await?;
        let mut reply = Vec::new();
        (&mut self.stdout).take(REPLY_BYTES_MAX).read_until(b'\n', &mut reply).await?;
        if reply.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match serde_json::from_slice(&reply)? {
            WorkerReply::Bytes(bytes) if bytes > limits.output_bytes_max => {
                Err(io::ErrorKind::InvalidData.into())
            }
            WorkerReply::Bytes(bytes) => {
                let mut image = vec![0; bytes];
                self.stdout.read_exact(&mut image).await?;
                Ok(Ok(image))
            }
            WorkerReply::Error(error) => Ok(Err(error)),
        }
    }

    /// Waits for the child to exit and derives the error from its exit status.
    async fn exit_reason(mut self, error: io::Error) -> PoolError {
        // A child that sent an invalid reply may still be running.
        if error.kind() == io::ErrorKind::InvalidData {
            self.child.start_kill().ok();
        }
        match self.child.wait().await {
            Ok(status) => classify(status, error),
            Err(error) => PoolError::Worker(error),
        }
    }
}

fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn classify(status: ExitStatus, error: io::Error) -> PoolError {
    use rustix::process::Signal;
    let signal = status.signal().and_then(Signal::from_named_raw);
    if signal == Some(Signal::XCPU) {
        return PoolError::Rejected(timed_out());
    }
    // Rust aborts when memory runs out, and a full stack ends in SIGSEGV or SIGBUS.
    if [Signal::ABORT, Signal::SEGV, Signal::BUS].into_iter().any(|by| signal == Some(by)) {
        let message = "the diagram needs more memory than allowed or is nested too deeply";
        return PoolError::Rejected(RenderError::new(ErrorCode::TooLarge, message));
    }
    PoolError::Worker(error)
}

fn timed_out() -> RenderError {
    RenderError::new(ErrorCode::TookTooLong, "rendering the diagram timed out")
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("limits", &self.limits).finish_non_exhaustive()
    }
}
