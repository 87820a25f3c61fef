//! Who listens where the server would, if anybody.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// For connecting, asking and being answered.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// Nobody.
    None,
    /// A server that says that it is ready.
    Ready,
    /// A server that answers `/readyz` with this status.
    Unready(u16),
    /// Somebody who does not speak our language.
    Foreign,
}

impl Peer {
    /// Asks whoever listens at `address` whether it is ready.
    pub(super) async fn at(address: SocketAddr) -> Self {
        // Any port is nobody's port.
        if address.port() == 0 {
            return Self::None;
        }
        let asked = tokio::time::timeout(PATIENCE, async {
            let mut socket = TcpStream::connect(address).await.ok()?;
            Some(request_readiness(&mut socket, address).await)
        });
        match asked.await {
            Ok(None) => Self::None,
            Ok(Some(Ok(head))) => classify(&head),
            Ok(Some(Err(_))) | Err(_) => Self::Foreign,
        }
    }
}

async fn request_readiness(socket: &mut TcpStream, address: SocketAddr) -> std::io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.take(4096).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).to_lowercase())
}

/// Ours has a request id on every answer.
fn classify(answer: &str) -> Peer {
    let status = answer.strip_prefix("http/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status {
        Some(200) if answer.contains("\r\nx-request-id:") => Peer::Ready,
        // It is ours and listens; more it says only to whoever knows its certificate's authority.
        Some(400) if answer.contains("this port speaks tls") => Peer::Ready,
        Some(status) if answer.contains("\r\nx-request-id:") => Peer::Unready(status),
        Some(_) | None => Peer::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_of_ours_is_ready() {
        let ours = "http/1.1 200 ok\r\nx-request-id: 1\r\n\r\nok";
        assert_eq!(classify(ours), Peer::Ready);
        assert_eq!(classify(&ours.replace("200", "503")), Peer::Unready(503));
        assert_eq!(classify("http/1.1 200 ok\r\n\r\n"), Peer::Foreign);
        assert_eq!(classify("ssh-2.0"), Peer::Foreign);
        let in_tls = "http/1.1 400 x\r\nx-request-id: 1\r\n\r\nthis port speaks tls: use https://";
        assert_eq!(classify(in_tls), Peer::Ready);
    }
}
