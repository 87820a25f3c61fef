//! A confined child process tries to reach the network, files and other processes.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal};

const FOLDER: &str = "LONGHAUL_CONFINE_TEST_FOLDER";
const PORT: &str = "LONGHAUL_CONFINE_TEST_PORT";

type Attempt = (&'static str, Box<dyn Fn() -> io::Result<()>>);

/// Actions that succeed outside of the confinement.
fn attempts() -> Vec<Attempt> {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    let parent = Pid::from_raw(std::os::unix::process::parent_id().cast_signed()).unwrap();
    let environment = format!("/proc/{}/environ", std::os::unix::process::parent_id());
    let (readable, writable, socket) =
        (folder.join("readable"), folder.join("writable"), folder.join("socket"));
    let (renamed, folder) = (readable.clone(), folder);
    vec![
        ("connect by TCP", Box::new(move || TcpStream::connect(("127.0.0.1", port)).map(drop))),
        ("listen on TCP", Box::new(|| TcpListener::bind("127.0.0.1:0").map(drop))),
        ("open a UDP socket", Box::new(|| UdpSocket::bind("127.0.0.1:0").map(drop))),
        ("connect to a socket file", Box::new(move || UnixStream::connect(&socket).map(drop))),
        ("open a file", Box::new(move || File::open(&readable).map(drop))),
        ("create a file", Box::new(move || File::create(&writable).map(drop))),
        ("rename a file", Box::new(move || std::fs::rename(&renamed, &renamed))),
        ("list a folder", Box::new(move || std::fs::read_dir(&folder).map(drop))),
        ("read the server's environment", Box::new(move || File::open(&environment).map(drop))),
        ("start a program", Box::new(|| Command::new("true").status().map(drop))),
        ("start a thread", Box::new(|| std::thread::Builder::new().spawn(|| ()).map(drop))),
        (
            "signal the server",
            Box::new(move || Ok(rustix::process::kill_process(parent, Signal::WINCH)?)),
        ),
    ]
}

/// Runs as a child of [`confined_process_reaches_nothing_outside`]; passes at once on its own.
#[test]
fn child() {
    if std::env::var_os(FOLDER).is_none() {
        return;
    }
    let attempts = attempts();
    for (name, attempt) in &attempts {
        attempt().unwrap_or_else(|error| panic!("unconfined, {name}: {error}"));
    }
    longhaul_confine::confine().unwrap();
    let mut output = io::stdout();
    for (name, attempt) in &attempts {
        let outcome = match attempt() {
            Ok(()) => "succeeded".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        writeln!(output, "{name}: {outcome}").unwrap();
    }
    let memory = vec![1_u8; 64 << 20];
    let panicked = std::panic::catch_unwind(|| panic!("on purpose")).is_err();
    let sum: u64 = memory.iter().map(|byte| u64::from(*byte)).sum();
    writeln!(output, "memory: {sum}, panics: {panicked}").unwrap();
    output.flush().unwrap();
    std::process::exit(0);
}

#[test]
fn confined_process_reaches_nothing_outside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("readable"), "secret").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .env(PORT, port.to_string())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{child:?}");
    let outcomes: Vec<&str> = output.lines().filter(|line| line.contains(": ")).collect();
    let (last, outcomes) = outcomes.split_last().unwrap();
    assert_eq!(*last, "memory: 67108864, panics: true");
    assert_eq!(outcomes.len(), 12, "{output}");
    for outcome in outcomes {
        assert!(outcome.ends_with(": PermissionDenied"), "{outcome}");
    }
}
