//! Servers that are killed or stopped in the middle of an upload: the job is accepted and durable, or leaves no trace.

use std::net::SocketAddr;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Case, TestStorage, config};
use super::requests::{JOBS, all_deleted, ask, delete, ended, submit};

const SCRIPT: &str = "wc -c <$LONGHAUL_PAYLOAD";

/// An upload of which the server has received the first half.
struct HalfUpload {
    socket: TcpStream,
    rest: Vec<u8>,
}

impl HalfUpload {
    async fn begin(address: SocketAddr, payload: &[u8]) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {JOBS} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n\
             Idempotency-Key: the-only-one\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\
             Connection: close\r\n\r\n",
            payload.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        // The server sends this when it reads the body.
        let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut response = vec![0; expected.len()];
        socket.read_exact(&mut response).await.unwrap();
        assert_eq!(response, expected);
        let (first, rest) = payload.split_at(payload.len() / 2);
        socket.write_all(first).await.unwrap();
        Self { socket, rest: rest.to_owned() }
    }

    async fn send_rest(&mut self) {
        self.socket.write_all(&self.rest).await.unwrap();
    }

    /// Returns the status of the response, or `None` if the connection ended without one.
    async fn status(mut self) -> Option<u16> {
        let mut response = Vec::new();
        // A connection may also end with a reset.
        self.socket.read_to_end(&mut response).await.ok();
        let response = String::from_utf8_lossy(&response);
        response.split(' ').nth(1).map(|status| status.parse().unwrap())
    }
}

/// Asserts that neither a job nor a blob of an upload is left, and that it can be repeated.
async fn assert_no_trace(case: &Case<'_>, payload: &[u8]) {
    case.sweep().await;
    let server = case.start(None).await;
    let address = case.install.address();
    let listed = ask(address, "GET /v1/jobs", b"").await.unwrap().json();
    assert_eq!(listed["jobs"], serde_json::json!([]));
    assert_job_completes(address, payload).await;
    case.assert_clean().await;
    drop(server);
}

/// Asserts that the one job of the payload, submitted again or not, completes with it and is deleted without a trace.
async fn assert_job_completes(address: SocketAddr, payload: &[u8]) {
    let id = submit(address, payload).await.unwrap();
    let job = ended(address, &id).await.unwrap().unwrap();
    let done = (&job["status"], &job["result"]);
    assert_eq!(done, (&"completed".into(), &payload.len().into()), "{job}");
    delete(address, &id).await.unwrap();
    all_deleted(address, &id).await.unwrap();
}

/// Runs `case` on SQLite and files, and on Postgres and a cloud.
async fn on_both_storages(case: impl AsyncFn(&Case<'_>, Vec<u8>)) {
    for in_cloud in [false, true] {
        let storage = TestStorage::new(in_cloud, in_cloud).await;
        let text = config(SCRIPT) + "[worker]\nstop_grace = \"1s\"\n";
        case(&Case::new(&storage, &text).await, storage.payload(true)).await;
        storage.assert_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_interrupted_by_a_kill_leaves_no_trace() {
    on_both_storages(async |case, payload| {
        let server = case.start(None).await;
        let upload = HalfUpload::begin(case.install.address(), &payload).await;
        case.assert_silent(&server.kill9().await);
        assert_eq!(upload.status().await, None);
        assert_no_trace(case, &payload).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_that_stalls_after_sigterm_leaves_no_trace() {
    on_both_storages(async |case, payload| {
        let server = case.start(None).await;
        let upload = HalfUpload::begin(case.install.address(), &payload).await;
        let exited = server.sigterm().await;
        assert_eq!(exited.status.code(), Some(0), "{exited:?}");
        case.assert_silent(&exited);
        assert_eq!(upload.status().await, None);
        assert_no_trace(case, &payload).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_that_ends_after_sigterm_is_accepted_and_durable() {
    on_both_storages(async |case, payload| {
        let mut server = case.start(None).await;
        let mut upload = HalfUpload::begin(case.install.address(), &payload).await;
        server.signal(Signal::TERM);
        server.wait_for_log("stopping").await;
        upload.send_rest().await;
        assert_eq!(upload.status().await, Some(202));
        let exited = server.wait().await;
        assert_eq!(exited.status.code(), Some(0), "{exited:?}");
        case.assert_silent(&exited);

        let _server = case.start(None).await;
        let address = case.install.address();
        let listed = ask(address, "GET /v1/jobs", b"").await.unwrap().json();
        assert_eq!(listed["jobs"].as_array().unwrap().len(), 1, "{listed}");
        assert_job_completes(address, &payload).await;
        case.assert_clean().await;
    })
    .await;
}
