//! Process group of a program and the processes that it starts.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use longhaul::job::Json;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::stderr_reader::StderrReader;

/// Time to read the pipes of a program that has exited. They close at once, unless a process that left the
/// group (a daemon) keeps them open.
const DRAIN: Duration = Duration::from_secs(2);

/// Running process group, killed when dropped.
///
/// The id of the group cannot be reused until its leader is reaped. So the leader is reaped last, and no
/// signal is sent after that.
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    reaped: bool,
}

pub(super) struct ProgramOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PipeError {
    #[error("stdout exceeds {bytes_max} bytes (stdout_bytes_max)")]
    StdoutTooLong { bytes_max: usize },
    #[error("pipe failed: {0}")]
    Io(#[from] io::Error),
}

impl ProcessGroup {
    /// Starts a program as the leader of a new group.
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("no process id"))?;
        Ok(Self { child, leader, reaped: false })
    }

    /// Writes stdin and reads stdout and stderr concurrently until the program exits.
    pub(super) async fn exchange(
        &mut self,
        stdin: &Json,
        stdout_bytes_max: usize,
        reader: &mut StderrReader<'_>,
    ) -> Result<ProgramOutput, PipeError> {
        let leader = self.leader;
        let mut output = Vec::new();
        {
            let Child { stdin: to, stdout, stderr, .. } = &mut self.child;
            let mut pipes = pin!(async {
                tokio::try_join!(
                    write(to.take(), stdin.as_str().as_bytes()),
                    read(stdout.as_mut(), &mut output, stdout_bytes_max),
                    async { Ok(reader.read(stderr.as_mut()).await?) },
                )
            });
            tokio::select! {
                result = &mut pipes => {
                    result?;
                    exited(leader).await?;
                }
                exited = exited(leader) => {
                    exited?;
                    // Processes that it left behind keep the pipes open.
                    kill(leader, Signal::KILL);
                    if let Ok(result) = timeout(DRAIN, pipes).await {
                        result?;
                    }
                }
            }
        }
        let status = self.reap().await?;
        Ok(ProgramOutput { status, stdout: output })
    }

    /// Sends SIGTERM to the group, and SIGKILL if its leader has not exited after `grace`.
    pub(super) async fn stop(mut self, grace: Duration) {
        self.child.stdin = None;
        kill(self.leader, Signal::TERM);
        {
            // Keep reading, so that its last output does not block it or break its pipe.
            let Child { stdout, stderr, .. } = &mut self.child;
            let drain = async {
                tokio::join!(discard(stdout.as_mut()), discard(stderr.as_mut()));
                pending::<()>().await;
            };
            tokio::select! {
                _ = timeout(grace, exited(self.leader)) => {}
                () = drain => {}
            }
        }
        if let Err(error) = self.reap().await {
            tracing::warn!(%error, "cannot reap a program");
        }
    }

    /// Kills the remaining processes of the group, then reaps its leader.
    async fn reap(&mut self) -> io::Result<ExitStatus> {
        kill(self.leader, Signal::KILL);
        let status = self.child.wait().await?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.reaped {
            // The runtime reaps a dropped child.
            kill(self.leader, Signal::KILL);
        }
    }
}

fn kill(leader: Pid, signal: Signal) {
    // Fails if no process is left.
    kill_process_group(leader, signal).ok();
}

/// Waits for the exit of the leader without reaping it.
async fn exited(leader: Pid) -> io::Result<()> {
    // Subscribed before the first check, so that no exit is missed.
    let mut child_exited = signal(SignalKind::child())?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(leader), options)?.is_none() {
        child_exited.recv().await;
    }
    Ok(())
}

async fn write(to: Option<ChildStdin>, text: &[u8]) -> Result<(), PipeError> {
    let Some(mut to) = to else { return Ok(()) };
    match to.write_all(text).await {
        // A program need not read its input.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

async fn read(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), PipeError> {
    let Some(mut from) = from else { return Ok(()) };
    while from.read_buf(into).await? > 0 {
        if into.len() > bytes_max {
            return Err(PipeError::StdoutTooLong { bytes_max });
        }
    }
    Ok(())
}

async fn discard(from: Option<impl AsyncRead + Unpin>) {
    if let Some(mut from) = from {
        copy(&mut from, &mut sink()).await.ok();
    }
}
