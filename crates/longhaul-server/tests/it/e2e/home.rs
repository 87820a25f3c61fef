//! A folder to run the server in, and the server as a process.

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

/// What stays while servers come and go: data, configuration and address.
pub(crate) struct Home {
    folder: TempDir,
    address: Mutex<SocketAddrV4>,
    /// Counts the servers that were ready.
    ready: watch::Sender<u64>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// A home whose servers find this as their `longhaul.toml`.
    pub(crate) fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("longhaul.toml"), config).unwrap();
        let address = Mutex::new(SocketAddrV4::new(own_ip(), 0));
        Self { folder, address, ready: watch::Sender::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("longhaul-data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data().join("longhaul.db")
    }

    /// Where the server listens: the same place after each restart.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::V4(*self.address.lock().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), None).unwrap()
    }

    /// Counts the servers that were ready: for those who wait for the next one.
    pub(crate) fn ready(&self) -> watch::Receiver<u64> {
        self.ready.subscribe()
    }

    /// The program, in this folder, with nothing of our own environment that could change it.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .kill_on_drop(true);
        command
    }

    /// `longhaul serve`, not started yet.
    pub(crate) fn serve(&self) -> Command {
        let mut command = self.command(LONGHAUL);
        command.args(["serve", "--listen", &self.address().to_string()]);
        command
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(&self) -> Server {
        self.until_ready(Server::spawn(self.serve())).await
    }

    /// Waits for a server that must get ready.
    pub(crate) async fn until_ready(&self, server: Server) -> Server {
        match self.ready_or_exited(server).await {
            Ok(server) => server,
            Err(exited) => panic!("the server ended before it was ready: {exited:?}"),
        }
    }

    /// Starts a server that may end before it is ready.
    pub(crate) async fn try_start(&self) -> Result<Server, Exited> {
        self.ready_or_exited(Server::spawn(self.serve())).await
    }

    /// Starts a server right after another was killed.
    ///
    /// A program that the killed one was just starting holds its port and its lock until it is the
    /// program, for some milliseconds, and nothing tells when it no longer does: so this tries again.
    pub(crate) async fn start_after_kill(&self) -> Server {
        for _ in 0..100 {
            match self.try_start().await {
                Ok(server) => return server,
                Err(exited) => {
                    let held = ["Address already in use", "another process has the database open"];
                    assert!(held.iter().any(|held| exited.stderr.contains(held)), "{exited:?}");
                }
            }
        }
        panic!("a killed server's port or lock is still held");
    }

    pub(crate) async fn ready_or_exited(&self, mut server: Server) -> Result<Server, Exited> {
        let mut line = server.line().await;
        // Where everybody needs a key, the first start shows one before anything else.
        if line.as_ref().is_some_and(|line| line.starts_with("the first admin key")) {
            line = server.line().await;
        }
        let Some(line) = line else { return Err(server.exited().await) };
        let url = line.split("dashboard http").nth(1).and_then(|rest| rest.split("://").nth(1));
        let url = url.and_then(|rest| rest.split('/').next());
        let address = url.and_then(|url| url.parse().ok());
        *self.address.lock().unwrap() = address.unwrap_or_else(|| panic!("{line:?}"));
        self.ready.send_modify(|count| *count += 1);
        Ok(server)
    }
}

/// A loopback address for this test alone, by its process id: while a server is away, nobody else's
/// socket can take its port, and no client that tries to reach it can connect to itself.
fn own_ip() -> Ipv4Addr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + a % 250, b, 1 + c % 250)
}

/// A running server. Killed when dropped; the runner shows what it logged if its test fails.
pub(crate) struct Server {
    child: Child,
    pid: Pid,
    stdout: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    log: Log,
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Exited {
    pub(crate) status: ExitStatus,
    /// What nobody had read by then.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Server {
    /// Starts the process and waits for nothing.
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

    /// The next line on stdout; nothing once it is closed.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.stdout.next_line().await.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Returns once the log has this text.
    pub(crate) async fn logged(&mut self, text: &str) {
        let found = self.log.text.wait_for(|log| log.contains(text)).await;
        assert!(found.is_ok(), "the log ended without {text:?}");
    }

    /// `kill -9`, and waits for the end.
    pub(crate) async fn kill9(self) -> Exited {
        // It may be dead already, which is what was wanted.
        kill_process(self.pid, Signal::KILL).ok();
        self.exited().await
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn sigterm(self) -> Exited {
        self.signal(Signal::TERM);
        self.exited().await
    }

    /// Waits for the end.
    pub(crate) async fn exited(mut self) -> Exited {
        let mut stdout = String::new();
        while let Some(line) = self.line().await {
            stdout += &line;
        }
        let status = self.child.wait().await.unwrap();
        self.log.reader.take().unwrap().await.unwrap();
        Exited { status, stdout, stderr: self.log.text.borrow().clone() }
    }
}

/// What a process wrote to stderr so far.
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
                // Not `eprintln!`, whose text is lost with a test that hangs until it is ended.
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

/// What a command that ran to its end left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end.
pub(crate) async fn ran(mut command: Command) -> io::Result<Ran> {
    let output = command.output().await?;
    Ok(Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    })
}
