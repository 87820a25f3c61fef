//! Requests by hand: bytes go out as they are, and an answer may never come.

use std::io;
use std::net::SocketAddr;

use longhaul_client::wire::Receipt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where payloads are sent.
pub(super) const JOBS: &str = "/v1/kinds/keep/jobs";
/// One job, however often its payload is sent.
const KEY: &str = "the-only-one";

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A request's head.
pub(super) fn head(address: SocketAddr, call: &str, length: usize) -> String {
    // An answer of this version is not cut into chunks, and ends with its connection.
    format!(
        "{call} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n\
         Idempotency-Key: {KEY}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Sends a `call` such as `GET /readyz`.
pub(super) async fn ask(address: SocketAddr, call: &str, body: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head(address, call, body.len()).as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let body = answer.split_off(end.ok_or(io::ErrorKind::UnexpectedEof)? + 4);
    let status = String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|it| it.parse().ok());
    Ok(Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, body })
}

/// Sends a payload, under the same key each time; the id of its job.
pub(super) async fn submit(address: SocketAddr, payload: &[u8]) -> io::Result<String> {
    let answer = ask(address, &format!("POST {JOBS}"), payload).await?;
    let job = answer.json();
    // It may be known, and have ended.
    assert!([200, 202].contains(&answer.status), "{job}");
    Ok(job["jobId"].as_str().unwrap().to_owned())
}

/// The job once it has ended; nothing if it was deleted.
pub(super) async fn ended(address: SocketAddr, id: &str) -> io::Result<Option<Value>> {
    loop {
        let answer = ask(address, &format!("GET /v1/jobs/{id}?wait=5"), b"").await?;
        let job = answer.json();
        match answer.status {
            200 if job["completedAt"].is_string() => return Ok(Some(job)),
            200 => {}
            410 => return Ok(None),
            status => panic!("{status}: {job}"),
        }
    }
}

/// Deletes a job that has ended.
pub(super) async fn delete(address: SocketAddr, id: &str) -> io::Result<()> {
    let answer = ask(address, &format!("DELETE /v1/jobs/{id}"), b"").await?;
    assert_eq!(answer.status, 204, "{}", answer.json());
    Ok(())
}

pub(super) async fn receipt(address: SocketAddr, id: &str) -> io::Result<Receipt> {
    let answer = ask(address, &format!("GET /v1/jobs/{id}/receipt"), b"").await?;
    assert_eq!(answer.status, 200, "{}", answer.json());
    Ok(serde_json::from_value(answer.json()).unwrap())
}

/// Waits until all that was stored for a job is deleted.
pub(super) async fn all_deleted(address: SocketAddr, id: &str) -> io::Result<Receipt> {
    loop {
        let receipt = receipt(address, id).await?;
        if receipt.deleted {
            return Ok(receipt);
        }
        tokio::task::yield_now().await;
    }
}
