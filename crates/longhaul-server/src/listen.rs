//! The accept loop. `axum::serve` has no timeouts, so that anybody could hold connections for
//! nothing; here each wait on a peer has an end.
//!
//! | the peer | is cut off by |
//! |---|---|
//! | connects and sends nothing, or keeps an idle connection | `header_timeout` |
//! | shakes hands slowly, where TLS is spoken | `header_timeout` |
//! | speaks HTTP where TLS is spoken | 400 |
//! | sends the head of a request slowly | `header_timeout` |
//! | sends the body slowly | `body_timeout`, with 408 |
//! | does not read the answer | `write_timeout` |
//! | sends a malformed or too large head, or one with two lengths | 400, 414 or 431, a problem like all others |
//!
//! Answers have no time limit: event streams and held requests go on as long as they are read.

mod body;
mod client;
mod connection;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod heads;
mod socket;
mod tls;
mod wire;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::problem::{Code, Problem};
use crate::request_id::RequestId;

pub use client::{Client, Proxies, Scheme};
pub use files::raise_open_files;
pub use tls::{Tls, TlsError, TlsFiles};

/// How long to wait after the system refused a socket: out of files or memory, which only other
/// connections' ends can cure.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What one connection, and all of them together, may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnLimits {
    /// For the head of the next request, from when the connection opened or the last answer ended.
    pub header_timeout: Duration,
    /// For a request's body, in time spent waiting for the peer.
    pub body_timeout: Duration,
    /// Each so many bytes of body earn one more second, so that large uploads can take long
    /// and slow ones cannot.
    pub body_bytes_per_s_min: u64,
    /// For the peer to take any part of an answer.
    pub write_timeout: Duration,
    /// For answers to finish after `stop`; then connections are cut.
    pub stop_grace: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Bytes of a request's path and query.
    pub uri_bytes_max: usize,
    /// Bytes of a request's head.
    pub header_bytes_max: usize,
    /// Fields in a request's head.
    pub headers_max: usize,
}

/// What stands between the network and the application.
#[derive(Debug, Clone)]
pub struct Front {
    /// What connections may take.
    pub limits: ConnLimits,
    /// What is spoken: TLS, or HTTP in clear.
    pub tls: Option<Arc<Tls>>,
    /// Who is believed about clients.
    pub proxies: Proxies,
}

impl Front {
    /// HTTP in clear.
    pub fn plain(limits: ConnLimits) -> Self {
        Self { limits, tls: None, proxies: Proxies::default() }
    }
}

/// Serves `app` until `stop`, then stops accepting, lets answers finish for `stop_grace`, and
/// cuts what is left. Handlers of endless answers watch `stop` themselves.
///
/// Handlers find the peer as `ConnectInfo<SocketAddr>`, and whom it speaks for as [`Client`].
pub async fn serve(listener: TcpListener, app: Router, front: Front, stop: CancellationToken) {
    let (limits, front) = (front.limits, Arc::new(front));
    let room = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    while let Some((socket, peer)) = accept(&listener, &stop).await {
        // Accept and refuse rather than wait for room: a caller and its load balancer learn at
        // once that this server is full, where the kernel's queue would hide it.
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            refuse(&socket, &front);
            continue;
        };
        let run = connection::run(socket, peer, app.clone(), Arc::clone(&front), stop.clone());
        let cut = cut.clone();
        connections.spawn(async move {
            cut.run_until_cancelled_owned(run).await;
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.stop_grace, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "cutting connections that did not finish");
        cut.cancel();
        connections.wait().await;
    }
}

/// The next connection, or `None` at the stop.
async fn accept(
    listener: &TcpListener,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok(accepted) => return Some(accepted),
            Err(error) if is_peers_fault(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections, will try again");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_BACKOFF)).await?;
            }
        }
    }
}

/// The peer gave up between its SYN and our accept: nothing to wait for.
fn is_peers_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// A fresh socket's buffer takes the whole answer at once, or the peer does without. So does one
/// that expects TLS: a handshake is what there is no room for.
fn refuse(socket: &TcpStream, front: &Front) {
    tracing::debug!("refused a connection: connections_max is reached");
    if front.tls.is_some() {
        return;
    }
    let problem = Problem::new(Code::Unavailable, "the server has no room for more connections")
        .retry_after(Duration::from_secs(1));
    if let Err(error) = socket.try_write(&wire::answer(&problem, &RequestId::fresh())) {
        tracing::debug!(%error, "could not tell a refused connection");
    }
}
