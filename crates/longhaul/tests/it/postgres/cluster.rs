//! A Postgres cluster for one test, which can be stopped, crashed, copied and reconfigured.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A cluster in its own folder. Removed when dropped.
pub(crate) struct Cluster {
    folder: TempDir,
    url: String,
    /// Environment of the server.
    env: Vec<(&'static str, OsString)>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[])
}

fn run_with(arguments: &[&str], env: &[(&str, OsString)]) -> Output {
    let env = env.iter().map(|(name, value)| (name, value));
    let output = Command::new(script()).args(arguments).envs(env).output().unwrap();
    assert!(
        output.status.success(),
        "scripts/postgres {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Returns the path of libfaketime, which `scripts/setup-test` installs with faketime.
fn libfaketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|folder| folder.unwrap().path());
    folders
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
        .expect("faketime should be installed: scripts/setup-test installs it")
}

impl Cluster {
    /// Creates a cluster with these settings and starts it.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let mut cluster = Self::in_folder();
        cluster.start_again(settings);
        cluster
    }

    /// Creates a cluster whose clock [`Cluster::set_clock`] changes, and starts it under libfaketime.
    pub(crate) fn start_with_clock(settings: &[&str]) -> Self {
        let mut cluster = Self::in_folder();
        let clock = cluster.clock_file();
        cluster.set_clock(0);
        cluster.env = vec![
            ("LD_PRELOAD", libfaketime().into()),
            ("FAKETIME_TIMESTAMP_FILE", clock.into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ];
        cluster.start_again(settings);
        cluster
    }

    /// Sets the cluster's clock so many seconds ahead of the machine's.
    pub(crate) fn set_clock(&self, seconds: i64) {
        let (next, clock) = (self.folder().join("clock.next"), self.clock_file());
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        // Renamed, because the server may read the file at any time.
        std::fs::rename(next, clock).unwrap();
    }

    fn clock_file(&self) -> PathBuf {
        self.folder().join("clock")
    }

    /// Creates a folder that the cluster's owner can enter, without a cluster.
    pub(crate) fn in_folder() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        Self { folder, url: String::new(), env: Vec::new() }
    }

    /// Starts the cluster after a stop or a crash.
    pub(crate) fn start_again(&mut self, settings: &[&str]) {
        let home = self.home();
        let mut arguments = vec!["start", &home];
        arguments.extend(settings);
        let output = run_with(&arguments, &self.env);
        String::from_utf8(output.stdout).unwrap().trim().clone_into(&mut self.url);
    }

    /// Returns the cluster's folder, which holds `data`.
    pub(crate) fn home(&self) -> String {
        self.folder.path().join("cluster").to_str().unwrap().to_owned()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the URL of the first database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns host and port.
    pub(crate) fn host(&self) -> &str {
        self.url.split_once('@').unwrap().1.split('/').next().unwrap()
    }

    /// Stops the cluster immediately, as a power cut would.
    pub(crate) fn crash(&self) {
        run(&["crash", &self.home()]);
    }

    /// Stops the cluster cleanly and closes all connections.
    pub(crate) fn stop(&self) {
        run(&["stop", &self.home()]);
    }

    /// Runs one of Postgres' programs as the cluster's owner.
    pub(crate) fn program(arguments: &[&str]) {
        let mut all = vec!["run"];
        all.extend(arguments);
        run(&all);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let home = self.home();
        // Fails if the folder is already gone, which needs no handling.
        drop(Command::new(script()).args(["remove", &home]).output());
    }
}
