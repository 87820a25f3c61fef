//! `backup` and `restore` with the real binary.

use std::fs;
use std::path::Path;

use longhaul_client::wire::{Status, SubmitRequest};
use longhaul_client::{Client, SubmitOptions};
use serde_json::json;
use tokio::sync::mpsc;

use super::{run, run_json};
use crate::e2e::submit::{end, submit, until};
use crate::harness::{Installation, TestProcess};

/// Returns `serve` with another data directory.
fn serve_from(install: &Installation, data: &str) -> TestProcess {
    let mut serve = install.serve();
    serve.args(["--data", data]);
    TestProcess::spawn(serve)
}

/// Asserts that a server rejects this data directory, and returns its message.
async fn rejected(install: &Installation, data: &str) -> String {
    match install.ready_or_exited(serve_from(install, data)).await {
        Ok(_) => panic!("it started from {data}"),
        Err(exited) => {
            assert_eq!(exited.status.code(), Some(1), "{exited:?}");
            exited.stderr
        }
    }
}

/// Two steps, of which the second waits until there is a file `gate` beside the data directory, and a kind that prints its payload.
const KINDS: &str = r#"
[kinds.pipeline]
steps = [
  { name = "first", command = ["sh", "-c", "echo $LONGHAUL_JOB_ID >>../../../../runs; echo 1"] },
  { name = "second", command = ["sh", "-c", "echo '::progress 1/2' >&2; while [ ! -e ../../../../gate ]; do sleep 0.05; done; echo 2"] },
]
[kinds.print]
command = ["sh", "-c", "cat $LONGHAUL_PAYLOAD"]
payload = true
"#;

/// Submits jobs until the receiver is dropped, and sends the id of each that was acknowledged.
async fn submit_all_the_time(client: Client, acknowledged: mpsc::UnboundedSender<String>) {
    let request = SubmitRequest::new("demo", &json!({"result": "load"})).unwrap();
    let options = SubmitOptions { idempotency_key: None, wait: None };
    loop {
        let job = client.submit(&request, &options).await.unwrap();
        if acknowledged.send(job.job_id).is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_server_under_load_is_restored_and_its_jobs_go_on() {
    let install = Installation::with(KINDS);
    let server = install.start().await;
    let client = install.client();
    let pipeline = submit(&client, "pipeline", json!(null)).await.job_id;
    until(&client, &pipeline, |job| job.progress.is_some()).await;
    client.pause_queue("default").await.unwrap();
    fs::write(install.path().join("payload"), "\"secret content\"").unwrap();
    let printed =
        run_json(&install, &["submit", "print", "--payload", "payload"]).await["jobId"].clone();
    let printed = printed.as_str().unwrap();

    let (sender, mut acknowledged) = mpsc::unbounded_channel();
    let load = tokio::spawn(submit_all_the_time(client.clone(), sender));
    let mut before = Vec::new();
    for _ in 0..50 {
        before.push(acknowledged.recv().await.unwrap());
    }
    let made = run_json(&install, &["backup", "--to", "backup", "--rate", "1GB/s"]).await;
    assert_eq!(
        (&made["hasServerKey"], &made["missingBlobs"]),
        (&json!(true), &json!([])),
        "{made}"
    );
    // The database, the server key, the key markers and the payload.
    assert_eq!(made["files"], 4, "{made}");
    drop(acknowledged);
    load.await.unwrap();
    let late = submit(&client, "demo", json!(null)).await.job_id;
    // What the server does afterwards is not in the backup.
    fs::write(install.path().join("gate"), "").unwrap();
    assert_eq!(end(&client, &pipeline).await.status, Status::Completed);
    server.sigterm().await;

    let unrestored = rejected(&install, "backup").await;
    assert!(unrestored.contains("longhaul restore --from"), "{unrestored}");
    let restored = run_json(&install, &["restore", "--from", "backup", "--data", "data2"]).await;
    assert_eq!(restored["releasedJobs"], 1, "{restored}");
    assert_eq!(restored["files"], 4, "{restored}");
    let _server = install.wait_ready(serve_from(&install, "data2")).await;
    let client = install.client();
    client.resume_queue("default").await.unwrap();
    for id in &before {
        assert_eq!(end(&client, id).await.status, Status::Completed);
    }
    let job = end(&client, &pipeline).await;
    assert_eq!((job.status, job.attempt), (Status::Completed, 1), "{job:?}");
    let runs = fs::read_to_string(install.path().join("runs")).unwrap();
    assert_eq!(runs, format!("{pipeline}\n"), "a finished step is not repeated");
    let job = end(&client, printed).await;
    assert_eq!(job.status, Status::Completed, "{job:?}");
    assert_eq!(client.result(printed).await.unwrap().as_str(), "\"secret content\"");
    let unknown = run(&install, &["get", &late]).await;
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_backup_is_not_restored() {
    let install = Installation::new();
    let server = install.start().await;
    submit(&install.client(), "demo", json!({"result": 1})).await;
    server.sigterm().await;
    let made = run(&install, &["backup", "--to", "backup"]).await;
    assert_eq!(made.code, Some(0), "a stopped server is backed up, too: {made:?}");
    assert!(made.err.contains("contains the server key"), "{made:?}");

    let restore = ["restore", "--from", "backup", "--data", "data2"];
    for file in ["longhaul.db", "server.key", "blobs/_server-keys"] {
        let path = install.path().join("backup").join(file);
        let intact = fs::read(&path).unwrap();
        let mut changed = intact.clone();
        *changed.last_mut().unwrap() ^= 1;
        for content in [changed.as_slice(), &intact[..intact.len() - 1]] {
            fs::write(&path, content).unwrap();
            let refused = run(&install, &restore).await;
            assert_eq!(refused.code, Some(1), "{file}: {refused:?}");
            assert!(
                refused.err.contains(file) && refused.err.contains("has changed"),
                "{refused:?}"
            );
            assert!(!install.path().join("data2").exists(), "nothing is written");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(run(&install, &restore).await.code, Some(1), "{file}");
        fs::write(&path, intact).unwrap();
    }
    assert_eq!(run(&install, &restore).await.code, Some(0));
    let again = run(&install, &restore).await;
    assert_eq!(again.code, Some(2), "it replaces nothing: {again:?}");
    assert!(again.err.contains("longhaul.db already exists"), "{again:?}");
    let again = run(&install, &["backup", "--to", "backup"]).await;
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("backup is not empty"), "{again:?}");
    fs::remove_file(install.path().join("backup/manifest.json")).unwrap();
    let refused = run(&install, &["restore", "--from", "backup", "--data", "data3"]).await;
    assert!(refused.err.contains("not a complete backup"), "{refused:?}");
}

fn copy_files(from: &Path, to: &Path, files: &[&str]) {
    fs::create_dir(to).unwrap();
    for file in files {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// Regression: `cp` of the file of a running server started as an empty store without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_database_of_a_running_server_is_rejected_without_its_log() {
    let install = Installation::new();
    let server = install.start().await;
    let client = install.client();
    client.pause_queue("default").await.unwrap();
    let id = submit(&client, "demo", json!({"result": 1})).await.job_id;
    let copies = ["alone", "complete"].map(|name| install.path().join(name));
    copy_files(&install.data_dir(), &copies[0], &["longhaul.db", "server.key"]);
    copy_files(&install.data_dir(), &copies[1], &["longhaul.db", "longhaul.db-wal", "server.key"]);
    server.kill9().await;

    let message = rejected(&install, "alone").await;
    assert!(message.contains("-wal file") && message.contains("longhaul backup"), "{message}");
    let doctor = run(&install, &["doctor", "--data", "alone", "--listen", "127.0.0.1:0"]).await;
    assert!(doctor.out.contains("without its newest writes"), "{doctor:?}");
    let server = install.wait_ready(serve_from(&install, "complete")).await;
    assert_eq!(install.client().job(&id, None).await.unwrap().status, Status::Pending);
    server.sigterm().await;
    // The killed server itself continues.
    let server = install.start().await;
    assert_eq!(install.client().job(&id, None).await.unwrap().status, Status::Pending);
    server.sigterm().await;
    // Its operator knows that another tool has made a complete copy.
    let fence = ["restore", "--fence", "--database", "sqlite:alone/longhaul.db"];
    assert_eq!(run_json(&install, &fence).await, json!({"releasedJobs": 0}));
    install.wait_ready(serve_from(&install, "alone")).await.sigterm().await;
}

#[tokio::test]
async fn unsupported_backups_are_rejected() {
    let install = Installation::new();
    for (args, reason) in [
        (&["backup", "--to", "b"][..], "no database at"),
        (&["backup", "--to", "b", "--database", "memory"], "has no files"),
        (&["backup", "--to", "b", "--database", "postgres://h/d"], "its own tools"),
        (&["backup", "--to", "b", "--rate", "fast"], "a size such as"),
        (&["restore", "--from", "missing"], "not a complete backup"),
        (&["restore"], "--from"),
        (&["restore", "--fence"], "no database at"),
    ] {
        let refused = run(&install, args).await;
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert!(refused.err.contains(reason), "{args:?}: {refused:?}");
    }
    assert!(!install.path().join("b").exists());
    assert!(!install.data_dir().exists());
}
