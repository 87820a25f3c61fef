//! Raw requests with binary bodies, which may get no response.

use std::io;
use std::net::SocketAddr;

use longhaul_client::wire::Receipt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Path that payloads are sent to.
pub(super) const JOBS: &str = "/v1/kinds/keep/jobs";
/// Idempotency key of all submissions, so that they create one job.
const KEY: &str = "the-only-one";

pub(super) struct PayloadResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl PayloadResponse {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Returns the head of a request.
pub(super) fn head(address: SocketAddr, call: &str, length: usize) -> String {
    // HTTP/1.0, so that the response is not chunked and ends with its connection.
    format!(
        "{call} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n\
         Idempotency-Key: {KEY}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Sends `call`, for example `GET /readyz`.
pub(super) async fn ask(
    address: SocketAddr,
    call: &str,
    body: &[u8],
) -> io::Result<PayloadResponse> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head(address, call, body.len()).as_bytes()).await?;
    stream.write_all(body).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    let end = response.windows(4).position(|part| part == b"\r\n\r\n");
    let body = response.split_off(end.ok_or(io::ErrorKind::UnexpectedEof)? + 4);
    let status =
        String::from_utf8_lossy(&response).split(' ').nth(1).and_then(|it| it.parse().ok());
    Ok(PayloadResponse { status: status.ok_or(io::ErrorKind::InvalidData)?, body })
}

/// Sends a payload and returns the id of its job.
pub(super) async fn submit(address: SocketAddr, payload: &[u8]) -> io::Result<String> {
    let response = ask(address, &format!("POST {JOBS}"), payload).await?;
    let job = response.json();
    // 200: the job exists already and has finished.
    assert!([200, 202].contains(&response.status), "{job}");
    Ok(job["jobId"].as_str().unwrap().to_owned())
}

/// Returns the job once it has finished, or `None` if it was deleted.
pub(super) async fn ended(address: SocketAddr, id: &str) -> io::Result<Option<Value>> {
    loop {
        let response = ask(address, &format!("GET /v1/jobs/{id}?wait=5"), b"").await?;
        let job = response.json();
        match response.status {
            200 if job["completedAt"].is_string() => return Ok(Some(job)),
            200 => {}
            410 => return Ok(None),
            status => panic!("{status}: {job}"),
        }
    }
}

/// Deletes a finished job.
pub(super) async fn delete(address: SocketAddr, id: &str) -> io::Result<()> {
    let response = ask(address, &format!("DELETE /v1/jobs/{id}"), b"").await?;
    assert_eq!(response.status, 204, "{}", response.json());
    Ok(())
}

pub(super) async fn receipt(address: SocketAddr, id: &str) -> io::Result<Receipt> {
    let response = ask(address, &format!("GET /v1/jobs/{id}/receipt"), b"").await?;
    assert_eq!(response.status, 200, "{}", response.json());
    Ok(serde_json::from_value(response.json()).unwrap())
}

/// Waits until all stored data of a job is deleted.
pub(super) async fn all_deleted(address: SocketAddr, id: &str) -> io::Result<Receipt> {
    loop {
        let receipt = receipt(address, id).await?;
        if receipt.deleted {
            return Ok(receipt);
        }
        tokio::task::yield_now().await;
    }
}
