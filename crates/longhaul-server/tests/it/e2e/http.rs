//! HTTP by hand: what the server says, with no client library to make it better.
//!
//! Requests are HTTP/1.0, so that an answer ends with its connection and is not cut into chunks.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and the fields, as they came.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the problem's code.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        (self.status, self.json()["code"].as_str().unwrap().to_owned())
    }
}

/// An answer whose body is read as it comes.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: BufReader<TcpStream>,
}

/// Sends `call`, such as `GET /readyz`, and reads the answer's head.
pub(crate) async fn open(
    address: SocketAddr,
    call: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> io::Result<Stream> {
    let mut lines = vec![format!("{call} HTTP/1.0"), format!("host: {address}")];
    lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}")));
    if !body.is_empty() {
        lines.push("content-type: application/json".to_owned());
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
    Ok(Stream { status, head, body: reader })
}

/// Sends `call` and reads the whole answer.
pub(crate) async fn ask(
    address: SocketAddr,
    call: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let Stream { status, head, body: mut reader } = open(address, call, fields, body).await?;
    let mut body = String::new();
    reader.read_to_string(&mut body).await?;
    Ok(Answer { status, head, body })
}
