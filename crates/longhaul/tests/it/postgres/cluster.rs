//! A Postgres cluster for one test, which can be stopped, crashed, copied and reconfigured.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A cluster in its own folder. Removed when dropped.
pub(crate) struct Cluster {
    folder: TempDir,
    url: String,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

fn run(arguments: &[&str]) -> Output {
    let output = Command::new(script()).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "scripts/postgres {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

impl Cluster {
    /// Creates a cluster with these settings and starts it.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let mut cluster = Self::in_folder();
        cluster.start_again(settings);
        cluster
    }

    /// Creates a folder that the cluster's owner can enter, without a cluster.
    pub(crate) fn in_folder() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        Self { folder, url: String::new() }
    }

    /// Starts the cluster after a stop or a crash.
    pub(crate) fn start_again(&mut self, settings: &[&str]) {
        let home = self.home();
        let mut arguments = vec!["start", &home];
        arguments.extend(settings);
        let output = run(&arguments);
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
