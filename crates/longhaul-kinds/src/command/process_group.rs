//! A program with all the processes that it starts.

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

/// How long the pipes of a program that has exited are still read. They close at once, unless a
/// process that left the group on purpose (a daemon) holds them open.
const DRAIN: Duration = Duration::from_secs(2);

/// A running process group. Dropping it kills it.
///
/// As long as its leader is not reaped, nobody else can get its number: so the leader is reaped
/// last, and no signal is sent after that.
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    reaped: bool,
}

/// A program that has ended.
pub(super) struct ProgramOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
}

/// Why a conversation with a program was broken off.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("it wrote more than {bytes_max} bytes to stdout (stdout_bytes_max)")]
    StdoutTooLong { bytes_max: usize },
    #[error("lost touch with it: {0}")]
    Io(#[from] io::Error),
}

impl ProcessGroup {
    /// Starts a program as the leader of a group of its own.
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { child, leader, reaped: false })
    }

    /// Writes stdin and reads what the program says, all at the same time, until it has exited.
    pub(super) async fn exchange(
        &mut self,
        stdin: &Json,
        stdout_bytes_max: usize,
        reader: &mut StderrReader<'_>,
    ) -> Result<ProgramOutput, ExchangeError> {
        let leader = self.leader;
        let mut output = Vec::new();
        {
            let Child { stdin: to, stdout, stderr, .. } = &mut self.child;
            let mut talk = pin!(async {
                tokio::try_join!(
                    write(to.take(), stdin.as_str().as_bytes()),
                    read(stdout.as_mut(), &mut output, stdout_bytes_max),
                    async { Ok(reader.listen(stderr.as_mut()).await?) },
                )
            });
            tokio::select! {
                talked = &mut talk => {
                    talked?;
                    exited(leader).await?;
                }
                exited = exited(leader) => {
                    exited?;
                    // What it left behind holds the pipes open.
                    kill(leader, Signal::KILL);
                    if let Ok(talked) = timeout(DRAIN, talk).await {
                        talked?;
                    }
                }
            }
        }
        let status = self.reap().await?;
        Ok(ProgramOutput { status, stdout: output })
    }

    /// Asks the group to end, and kills it if its leader has not ended after `grace`.
    pub(super) async fn stop(mut self, grace: Duration) {
        self.child.stdin = None;
        kill(self.leader, Signal::TERM);
        {
            // Somebody must read, or its last words would block it or break its pipe.
            let Child { stdout, stderr, .. } = &mut self.child;
            let overhear = async {
                tokio::join!(discard(stdout.as_mut()), discard(stderr.as_mut()));
                pending::<()>().await;
            };
            tokio::select! {
                _ = timeout(grace, exited(self.leader)) => {}
                () = overhear => {}
            }
        }
        if let Err(error) = self.reap().await {
            tracing::warn!(%error, "cannot reap a program");
        }
    }

    /// Kills what is left of the group, then reaps its leader.
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
            // Dropping the child hands it to the runtime, which reaps it.
            kill(self.leader, Signal::KILL);
        }
    }
}

fn kill(leader: Pid, signal: Signal) {
    // It fails if there is nobody left, which is fine.
    kill_process_group(leader, signal).ok();
}

/// Returns when the leader has exited, and leaves it unreaped.
async fn exited(leader: Pid) -> io::Result<()> {
    // Before the first look, so that no exit falls between two looks.
    let mut some_child_ended = signal(SignalKind::child())?;
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(leader), look)?.is_none() {
        some_child_ended.recv().await;
    }
    Ok(())
}

async fn write(to: Option<ChildStdin>, text: &[u8]) -> Result<(), ExchangeError> {
    let Some(mut to) = to else { return Ok(()) };
    match to.write_all(text).await {
        // A program need not read what it has no use for.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

async fn read(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), ExchangeError> {
    let Some(mut from) = from else { return Ok(()) };
    while from.read_buf(into).await? > 0 {
        if into.len() > bytes_max {
            return Err(ExchangeError::StdoutTooLong { bytes_max });
        }
    }
    Ok(())
}

async fn discard(from: Option<impl AsyncRead + Unpin>) {
    if let Some(mut from) = from {
        copy(&mut from, &mut sink()).await.ok();
    }
}
