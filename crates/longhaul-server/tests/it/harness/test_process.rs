//! The real binary as a process, and the directory that it runs in.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;

use longhaul_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The program under test.
pub(crate) const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// Configuration, data and address of a server, kept across restarts.
pub(crate) struct Installation {
    directory: TempDir,
    address: Mutex<SocketAddrV4>,
    /// Number of processes that have become ready.
    ready: watch::Sender<u64>,
}

impl Installation {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// Creates a directory with this `longhaul.toml`.
    pub(crate) fn with(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("longhaul.toml"), config).unwrap();
        let address = Mutex::new(SocketAddrV4::new(own_ip(), 0));
        Self { directory, address, ready: watch::Sender::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path().join("longhaul-data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data_dir().join("longhaul.db")
    }

    /// Returns the address of the server, which is the same after each restart.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::V4(*self.address.lock().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), None).unwrap()
    }

    /// Watches the number of processes that have become ready, to wait for the next start.
    pub(crate) fn ready(&self) -> watch::Receiver<u64> {
        self.ready.subscribe()
    }

    /// Returns a command in this directory without the environment of the test, except `PATH`.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .kill_on_drop(true);
        command
    }

    /// Returns `longhaul serve`, not started yet.
    pub(crate) fn serve(&self) -> Command {
        let mut command = self.command(LONGHAUL);
        command.args(["serve", "--listen", &self.address().to_string()]);
        command
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(&self) -> TestProcess {
        self.wait_ready(TestProcess::spawn(self.serve())).await
    }

    /// Waits until a process is ready, and panics if it exits before.
    pub(crate) async fn wait_ready(&self, server: TestProcess) -> TestProcess {
        match self.ready_or_exited(server).await {
            Ok(server) => server,
            Err(exited) => panic!("the server exited before it was ready: {exited:?}"),
        }
    }

    /// Starts a server that may exit before it is ready.
    pub(crate) async fn try_start(&self) -> Result<TestProcess, ExitedProcess> {
        self.ready_or_exited(TestProcess::spawn(self.serve())).await
    }

    /// Starts a server right after another was killed.
    ///
    /// A child that the killed process has just forked holds the port and the lock until it has
    /// called `exec`, for some milliseconds. Nothing signals that moment, so this tries again.
    pub(crate) async fn start_after_kill(&self) -> TestProcess {
        for _ in 0..100 {
            match self.try_start().await {
                Ok(server) => return server,
                Err(exited) => {
                    let expected =
                        ["Address already in use", "another process has the database open"];
                    let is_expected = expected.iter().any(|text| exited.stderr.contains(text));
                    assert!(is_expected, "{exited:?}");
                }
            }
        }
        panic!("the port or the lock of a killed server is still in use");
    }

    pub(crate) async fn ready_or_exited(
        &self,
        mut server: TestProcess,
    ) -> Result<TestProcess, ExitedProcess> {
        let mut line = server.line().await;
        // With `require_keys`, the first start prints a key before the ready line.
        if line.as_ref().is_some_and(|line| line.starts_with("the first admin key")) {
            line = server.line().await;
        }
        let Some(line) = line else { return Err(server.wait().await) };
        let url = line.split("dashboard http").nth(1).and_then(|rest| rest.split("://").nth(1));
        let url = url.and_then(|rest| rest.split('/').next());
        let address = url.and_then(|url| url.parse().ok());
        *self.address.lock().unwrap() = address.unwrap_or_else(|| panic!("{line:?}"));
        self.ready.send_modify(|count| *count += 1);
        Ok(server)
    }
}

/// Returns a loopback address derived from the process id, so that no other test can take the port
/// of a server that is down, and no client that reconnects can connect to itself.
fn own_ip() -> Ipv4Addr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + a % 250, b, 1 + c % 250)
}

/// A running process. Killed when dropped; its log is printed to the stderr of the test.
pub(crate) struct TestProcess {
    child: Child,
    pid: Pid,
    stdout: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    log: Log,
}

#[derive(Debug)]
pub(crate) struct ExitedProcess {
    pub(crate) status: ExitStatus,
    /// Lines that the test had not read.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestProcess {
    /// Starts the process without waiting until it is ready.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let log = Log::of(child.stderr.take().unwrap());
        Self { child, pid, stdout, log }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the next line of stdout, or `None` once it is closed.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.stdout.next_line().await.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Waits until the log contains `text`.
    pub(crate) async fn wait_for_log(&mut self, text: &str) {
        let found = self.log.text.wait_for(|log| log.contains(text)).await;
        assert!(found.is_ok(), "the log ended without {text:?}");
    }

    /// Sends SIGKILL and waits for the exit.
    pub(crate) async fn kill9(self) -> ExitedProcess {
        // The process may be dead already.
        kill_process(self.pid, Signal::KILL).ok();
        self.wait().await
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) async fn sigterm(self) -> ExitedProcess {
        self.signal(Signal::TERM);
        self.wait().await
    }

    pub(crate) async fn wait(mut self) -> ExitedProcess {
        let mut stdout = String::new();
        while let Some(line) = self.line().await {
            stdout += &line;
        }
        let status = self.child.wait().await.unwrap();
        self.log.reader.take().unwrap().await.unwrap();
        ExitedProcess { status, stdout, stderr: self.log.text.borrow().clone() }
    }
}

/// Everything that a process has written to stderr.
struct Log {
    text: watch::Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    fn of(stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, text) = watch::channel(String::new());
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                // Not `eprintln!`, because its captured text is lost when the runner kills a test.
                io::stderr().write_all(format!("[server] {line}\n").as_bytes()).unwrap();
                sender.send_modify(|text| {
                    text.push_str(&line);
                    text.push('\n');
                });
            }
        });
        Self { text, reader: Some(reader) }
    }
}

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command and returns its output.
pub(crate) async fn output_of(mut command: Command) -> io::Result<CommandOutput> {
    let output = command.output().await?;
    Ok(CommandOutput {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    })
}
