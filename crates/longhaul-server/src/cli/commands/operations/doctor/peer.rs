//! Detection of a server on the configured address.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout for the connection and the response.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Program that listens on the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    None,
    /// A ready Longhaul server.
    Ready,
    /// A Longhaul server with this status of `/readyz`.
    Unready(u16),
    /// Another program.
    Foreign,
}

impl Peer {
    /// Requests `/readyz` from the address.
    pub(super) async fn at(address: SocketAddr) -> Self {
        // Port 0 picks a free port.
        if address.port() == 0 {
            return Self::None;
        }
        let response = tokio::time::timeout(TIMEOUT, async {
            let mut socket = TcpStream::connect(address).await.ok()?;
            Some(request_readiness(&mut socket, address).await)
        });
        match response.await {
            Ok(None) => Self::None,
            Ok(Some(Ok(head))) => classify(&head),
            Ok(Some(Err(_))) | Err(_) => Self::Foreign,
        }
    }
}

async fn request_readiness(socket: &mut TcpStream, address: SocketAddr) -> std::io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    socket.take(4096).read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).to_lowercase())
}

/// Longhaul responses have a request id.
fn classify(response: &str) -> Peer {
    let status = response.strip_prefix("http/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status {
        Some(200) if response.contains("\r\nx-request-id:") => Peer::Ready,
        // A TLS server cannot be checked further without its certificate authority.
        Some(400) if response.contains("this port speaks tls") => Peer::Ready,
        Some(status) if response.contains("\r\nx-request-id:") => Peer::Unready(status),
        Some(_) | None => Peer::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_longhaul_server_is_ready() {
        let longhaul = "http/1.1 200 ok\r\nx-request-id: 1\r\n\r\nok";
        assert_eq!(classify(longhaul), Peer::Ready);
        assert_eq!(classify(&longhaul.replace("200", "503")), Peer::Unready(503));
        assert_eq!(classify("http/1.1 200 ok\r\n\r\n"), Peer::Foreign);
        assert_eq!(classify("ssh-2.0"), Peer::Foreign);
        let in_tls = "http/1.1 400 x\r\nx-request-id: 1\r\n\r\nthis port speaks tls: use https://";
        assert_eq!(classify(in_tls), Peer::Ready);
    }
}
