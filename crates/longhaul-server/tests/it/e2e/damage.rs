//! Disks and files that fail, and a second process that wants them.

#[cfg(target_os = "linux")]
mod full_postgres;
#[cfg(target_os = "linux")]
mod power_cut;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use longhaul_client::wire::{Status, SubmitRequest};
use longhaul_client::{ListRequest, SubmitOptions};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::submit::{end, submit};
use crate::harness::raw_http;
use crate::harness::{Installation, LONGHAUL, TestProcess, output_of, skip};

#[tokio::test]
async fn second_process_on_the_same_data_is_rejected() {
    let install = Installation::new();
    let _first = install.start().await;
    let mut second = install.command(LONGHAUL);
    second.args(["serve", "--listen", "127.0.0.1:0"]);
    let second = output_of(second).await.unwrap();
    assert_eq!((second.code, second.out.as_str()), (Some(1), ""));
    assert!(second.err.contains("another process has the database open"), "{}", second.err);
    assert!(second.err.contains("stop it, or use another file"), "{}", second.err);
    let job = submit(&install.client(), "demo", json!({})).await;
    assert_eq!(end(&install.client(), &job.job_id).await.status, Status::Completed);
}

/// A database with jobs, written and closed as it should be.
async fn filled() -> Installation {
    let install = Installation::new();
    let server = install.start().await;
    for _ in 0..50 {
        let job = submit(&install.client(), "demo", json!({"result": "x".repeat(2_000)})).await;
        end(&install.client(), &job.job_id).await;
    }
    assert_eq!(server.sigterm().await.status.code(), Some(0));
    install
}

fn flip(path: &Path, at: u64, count: usize) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, at).unwrap();
    for byte in &mut bytes {
        *byte = !*byte;
    }
    file.write_all_at(&bytes, at).unwrap();
}

async fn refuses_to_start(install: &Installation) {
    let Err(exited) = install.try_start().await else { panic!("it started on a damaged file") };
    assert_eq!(exited.status.code(), Some(1), "{exited:?}");
    assert!(exited.stderr.contains("is damaged or not a database"), "{exited:?}");
    assert!(exited.stderr.contains("restore a backup"), "{exited:?}");
}

#[tokio::test]
async fn damaged_database_header_prevents_the_start_with_a_hint() {
    let install = filled().await;
    flip(&install.database(), 0, 100);
    refuses_to_start(&install).await;
}

/// A file that was closed cleanly is not looked through at each start; one that was not, is.
#[tokio::test]
async fn damaged_database_page_is_found_after_a_crash() {
    let install = filled().await;
    let server = install.start().await;
    submit(&install.client(), "demo", json!({})).await;
    server.kill9().await;
    let size = std::fs::metadata(install.database()).unwrap().len();
    for page in (1..size / 4096).filter(|page| page % 3 == 0) {
        flip(&install.database(), page * 4096, 512);
    }
    refuses_to_start(&install).await;
}

#[tokio::test]
async fn data_files_are_readable_by_their_owner_only() {
    let install = Installation::new();
    // A folder that was there before, open to all as folders are.
    std::fs::create_dir(install.data_dir()).unwrap();
    std::fs::set_permissions(install.data_dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let server = install.start().await;
    let job = submit(&install.client(), "demo", json!({})).await;
    end(&install.client(), &job.job_id).await;
    let mut looked_at = 0;
    for entry in std::fs::read_dir(install.data_dir()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.path());
            looked_at += 1;
        }
    }
    assert!(looked_at >= 3, "database, log and lock");
    drop(server);
}

/// Returns a command that runs `program` with a mount that no other process sees, and that ends with it.
fn with_private_mount(install: &Installation, mount: &str, program: &[&str]) -> Command {
    let mut command = install.command("unshare");
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    command.args(["--mount", "sh", "-c", &script]).args(program);
    command
}

/// Returns a server whose data folder is mounted by `mount`.
fn serve_on(install: &Installation, mount: &str) -> TestProcess {
    std::fs::create_dir_all(install.data_dir()).unwrap();
    let listen = install.address().to_string();
    let mount = format!("{mount} {}", install.data_dir().display());
    TestProcess::spawn(with_private_mount(
        install,
        &mount,
        &[LONGHAUL, "serve", "--listen", &listen],
    ))
}

/// Reports whether this machine allows mounts; containers often do not.
async fn may_mount(install: &Installation) -> bool {
    let probe = with_private_mount(install, "mount -t tmpfs tmpfs /mnt", &["true"]);
    output_of(probe).await.is_ok_and(|ran| ran.code == Some(0))
}

/// Fills the disk with this folder until submissions are rejected, reads meanwhile, and frees the disk.
async fn assert_full_disk_is_survived(install: &Installation, disk: &Path) {
    let client = install.client();
    let before = submit(&client, "demo", json!({"result": "before"})).await;
    end(&client, &before.job_id).await;

    let ballast = disk.join("ballast");
    let filled = std::fs::File::create(&ballast)
        .and_then(|mut file| std::io::copy(&mut std::io::repeat(0), &mut file));
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let body = json!({"kind": "demo", "input": {"result": "x".repeat(4_000)}}).to_string();
    let mut acknowledged = Vec::new();
    let refused = loop {
        let response =
            raw_http::send(install.address(), "POST /v1/jobs", &[], &body).await.unwrap();
        if !response.status.to_string().starts_with('2') {
            break response;
        }
        acknowledged.push(response.json()["jobId"].as_str().unwrap().to_owned());
        assert!(acknowledged.len() < 1_000, "the disk never fills");
    };
    assert_eq!(refused.problem(), (503, "storage-full".to_owned()));
    assert!(refused.head.to_lowercase().contains("\r\nretry-after: "), "{}", refused.head);

    assert_eq!(client.job(&before.job_id, None).await.unwrap().status, Status::Completed);
    assert!(client.list(&ListRequest::default()).await.unwrap().jobs.len() > acknowledged.len());

    std::fs::remove_file(&ballast).unwrap();
    let after = submit(&client, "demo", json!({"result": "after"})).await;
    acknowledged.push(after.job_id);
    for id in acknowledged {
        assert_eq!(end(&client, &id).await.status, Status::Completed);
    }
}

#[tokio::test]
async fn full_disk_rejects_submissions_but_not_reads_and_recovers() {
    let install = Installation::new();
    if !may_mount(&install).await {
        return skip("mounting a small disk needs root");
    }
    let server = install.wait_ready(serve_on(&install, "mount -t tmpfs -o size=2m tmpfs")).await;
    let pid = server.pid().as_raw_nonzero();
    let disk = format!("/proc/{pid}/root{}", install.data_dir().display());
    assert_full_disk_is_survived(&install, Path::new(&disk)).await;
    assert_eq!(server.sigterm().await.status.code(), Some(0));
}

#[tokio::test]
async fn failed_sync_is_never_acknowledged_and_ends_the_server() {
    let install = Installation::new();
    let server = install.start().await;
    let pid = server.pid().as_raw_nonzero().to_string();
    let mut strace = install.command("strace");
    strace.args(["-f", "-p", &pid, "-e", "trace=fsync,fdatasync"]);
    strace.args(["-e", "inject=fsync,fdatasync:error=EIO"]);
    let Ok(mut strace) = strace.stderr(Stdio::piped()).spawn() else {
        return skip("there is no strace");
    };
    let mut lines = BufReader::new(strace.stderr.take().unwrap()).lines();
    let attached = lines.next_line().await.unwrap().unwrap_or_default();
    if !attached.contains("attached") {
        return skip(&format!("strace may not attach: {attached}"));
    }
    let once = SubmitOptions { idempotency_key: Some("k".to_owned()), wait: None };
    let request = SubmitRequest::new("demo", &json!({})).unwrap();
    let refused = install.client().submit(&request, &once).await;
    assert!(refused.is_err(), "acknowledged without a sync: {refused:?}");
    let exited = server.wait().await;
    assert_eq!(exited.status.code(), Some(1), "{exited:?}");
    assert!(exited.stderr.contains("the database failed"), "{exited:?}");

    let _server = install.start().await;
    let job = install.client().submit(&request, &once).await.unwrap();
    assert_eq!(end(&install.client(), &job.job_id).await.status, Status::Completed);
    assert_eq!(install.client().list(&ListRequest::default()).await.unwrap().jobs.len(), 1);
}
