//! Programs that outlive the server that started them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::e2e::submit::submit;
use crate::harness::Installation;

/// A program that writes its attempt and process id, and then continues without reading its
/// pipes, so that it does not notice that its server is gone.
fn config(told: &Path) -> String {
    let text = format!("echo $LONGHAUL_ATTEMPT $$ >{}; sleep 600", told.display());
    format!("[kinds.stubborn]\ncommand = [\"sh\", \"-c\", \"{text}\"]\nmax_attempts = 2\n")
}

/// The attempt and process of the program that begins next.
async fn begun(told: PathBuf) -> (u32, u32) {
    let read = move || {
        let mut line = String::new();
        BufReader::new(File::open(told).unwrap()).read_line(&mut line).unwrap();
        let (attempt, pid) = line.trim().split_once(' ').unwrap();
        (attempt.parse().unwrap(), pid.parse().unwrap())
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

/// A process that has exited has no environment, even before its parent has waited for it.
fn is_alive(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| !environ.is_empty())
}

#[tokio::test]
async fn rescued_job_does_not_run_beside_its_orphaned_process() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    assert!(std::process::Command::new("mkfifo").arg(&told).status().unwrap().success());
    let install = Installation::with(&config(&told));
    let server = install.start().await;
    let job = submit(&install.client(), "stubborn", json!({})).await;
    let (attempt, first) = begun(told.clone()).await;
    server.kill9().await;
    assert!(attempt == 1 && is_alive(first), "the server took its program with it");

    let server = install.start().await;
    let (attempt, second) = begun(told).await;
    assert!(!is_alive(first), "two copies of one job");
    assert_eq!((attempt, is_alive(second)), (2, true));
    install.client().cancel(&job.job_id).await.unwrap();
    server.sigterm().await;
}
