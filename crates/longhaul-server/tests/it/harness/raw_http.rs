//! HTTP requests over a plain socket, so that no client library hides what the server sends.
//!
//! Requests are HTTP/1.0, so that a response ends with its connection and is not chunked.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    /// Status line and headers, unparsed.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl RawResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the status and the problem's code.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        (self.status, self.json()["code"].as_str().unwrap().to_owned())
    }
}

/// A response whose body has not been read yet.
pub(crate) struct RawStream {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: BufReader<TcpStream>,
}

/// Sends `call`, for example `GET /readyz`, and reads the response's head.
pub(crate) async fn open(
    address: SocketAddr,
    call: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<RawStream> {
    let mut lines = vec![format!("{call} HTTP/1.0"), format!("host: {address}")];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if !body.is_empty() {
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            lines.push("content-type: application/json".to_owned());
        }
        lines.push(format!("content-length: {}", body.len()));
    }
    let request = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{head:?}"));
    Ok(RawStream { status, head, body: reader })
}

/// Sends `call` and reads the whole response.
pub(crate) async fn send(
    address: SocketAddr,
    call: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<RawResponse> {
    let RawStream { status, head, body: mut reader } = open(address, call, headers, body).await?;
    let mut body = String::new();
    reader.read_to_string(&mut body).await?;
    Ok(RawResponse { status, head, body })
}
