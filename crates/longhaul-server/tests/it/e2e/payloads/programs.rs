//! A server that is killed while a program works on a payload, and right after its end.

use std::fs;
use std::path::PathBuf;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::fixture::{Case, TestStorage, config};
use super::requests::{JOBS, all_deleted, ask, delete, ended, head, receipt, submit};

/// Waits for a file that the test creates, then copies its payload into an artifact.
const SCRIPT: &str = "while [ ! -e $HOME/go ]; do sleep 0.01; done; cp $LONGHAUL_PAYLOAD $LONGHAUL_ARTIFACTS/copy; wc -c <$LONGHAUL_PAYLOAD";

async fn killed_while_it_works(on_postgres: bool) {
    let storage = TestStorage::new(on_postgres, false).await;
    let case = Case::new(&storage, &config(SCRIPT)).await;
    let payload = storage.payload(true);

    // In the middle of an upload whose rest never comes.
    let server = case.start(None).await;
    let address = case.install.address();
    let mut half = TcpStream::connect(address).await.unwrap();
    let call = format!("POST {JOBS}");
    half.write_all(head(address, &call, payload.len()).as_bytes()).await.unwrap();
    half.write_all(&payload[..payload.len() / 2]).await.unwrap();
    server.kill9().await;
    assert_eq!(case.found(), Vec::<PathBuf>::new());

    // While the job runs, with its payload in clear in its folder.
    let server = case.start(None).await;
    let id = submit(address, &payload).await.unwrap();
    while case.found().is_empty() {
        tokio::task::yield_now().await;
    }
    server.kill9().await;
    let server = case.start(None).await;
    let clear = case.found();
    assert!(clear.iter().all(|path| path.starts_with(case.work())), "{clear:?}");

    // Right after its end.
    fs::write(case.install.path().join("go"), "").unwrap();
    let job = ended(address, &id).await.unwrap().unwrap();
    let done = (&job["status"], &job["result"]);
    assert_eq!(done, (&"completed".into(), &payload.len().into()));
    server.kill9().await;
    let server = case.start(None).await;
    let stored = receipt(address, &id).await.unwrap();
    assert!(stored.stored[0].key_destroyed_at.is_some());
    case.assert_clean().await;

    // After its artifact was read and the job deleted.
    let artifact = ask(address, &format!("GET /v1/jobs/{id}/artifacts/copy"), b"").await.unwrap();
    assert!(artifact.body == payload);
    delete(address, &id).await.unwrap();
    server.kill9().await;
    let server = case.start(None).await;
    let left = all_deleted(address, &id).await.unwrap().stored;
    assert!(left.iter().all(|one| one.deleted_by.is_some()), "{left:?}");
    case.assert_clean().await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_program_leaves_no_payload_on_sqlite() {
    killed_while_it_works(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_program_leaves_no_payload_on_postgres() {
    killed_while_it_works(true).await;
}
