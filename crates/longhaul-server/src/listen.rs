//! Accept loop and HTTP/1.1 connections.
//!
//! Replaces `axum::serve`, which has no timeouts, so that idle or slow peers could hold connections
//! for ever. Here every wait for a peer is bounded:
//!
//! | the peer | limit or response |
//! |---|---|
//! | connects and sends nothing, or keeps an idle connection | `header_timeout` |
//! | is slow in the TLS handshake | `header_timeout` |
//! | sends plain HTTP to a TLS port | 400 |
//! | sends a request's head slowly | `header_timeout` |
//! | sends a request's body slowly | `body_timeout`, then 408 |
//! | does not read the response | `write_timeout` |
//! | sends a malformed or oversized head | 400, 414 or 431, as problem details |
//!
//! Responses have no time limit, so that event streams and long polls last as long as the peer reads.

mod client_info;
mod connection;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hyper_io;
mod rlimit;
mod stream;
mod timed_body;
mod tls;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::problem::{Code, Problem};
use crate::request_id::RequestId;

pub use client_info::{ClientInfo, Scheme, TrustedProxies};
pub use rlimit::raise_open_files;
pub use tls::{Tls, TlsError, TlsFiles};

/// Delay after a failed `accept`. The process is out of file descriptors or memory, and only a closing
/// connection frees some.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Limits per connection, and on the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnLimits {
    /// Time to receive a request's head, from the opening of the connection or the previous response.
    pub header_timeout: Duration,
    /// Time to wait for a request's body. Only time spent waiting for the peer counts.
    pub body_timeout: Duration,
    /// Minimum upload rate: each of this many bytes extends `body_timeout` by one second, so that large
    /// uploads may take long and stalled ones may not.
    pub body_bytes_per_s_min: u64,
    /// Time in which the peer must read some part of a pending response.
    pub write_timeout: Duration,
    /// Time for responses to finish after `stop`. Open connections are closed afterwards.
    pub stop_grace: Duration,
    /// Concurrent connections.
    pub connections_max: usize,
    /// Size of a request's path and query.
    pub uri_bytes_max: usize,
    /// Size of a request's head.
    pub header_bytes_max: usize,
    /// Header fields per request.
    pub headers_max: usize,
}

/// Configuration of one listening socket.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    pub limits: ConnLimits,
    /// Certificate and key. Serves plain HTTP if absent.
    pub tls: Option<Arc<Tls>>,
    /// Proxies whose forwarding headers are trusted.
    pub proxies: TrustedProxies,
}

impl ListenerConfig {
    /// Plain HTTP without trusted proxies.
    pub fn plain(limits: ConnLimits) -> Self {
        Self { limits, tls: None, proxies: TrustedProxies::default() }
    }
}

/// Serves `app` until `stop`, then stops accepting, waits `stop_grace` for responses to finish, and
/// closes the remaining connections. Handlers of endless responses watch `stop` themselves.
///
/// Request extensions hold the peer as `ConnectInfo<SocketAddr>` and the client as [`ClientInfo`].
pub async fn serve(
    listener: TcpListener,
    app: Router,
    config: ListenerConfig,
    stop: CancellationToken,
) {
    let (limits, config) = (config.limits, Arc::new(config));
    let permits = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    while let Some((socket, peer)) = accept(&listener, &stop).await {
        // Forgets the connections that have ended.
        while connections.try_join_next().is_some() {}
        // Accept and reject instead of waiting for a permit, so that clients and load balancers see
        // at once that this server is full; the kernel's backlog would hide it.
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            reject(&socket, &config);
            continue;
        };
        let (app, config) = (app.clone(), Arc::clone(&config));
        // Spawned as it is, because an async block around it would hold it twice.
        connections.spawn(connection::run(socket, peer, app, config, stop.clone(), permit));
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.stop_grace, finished).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "closing connections that did not finish in time"
        );
        connections.shutdown().await;
    }
}

/// Returns the next connection, or `None` once `stop` is cancelled.
async fn accept(
    listener: &TcpListener,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok(accepted) => return Some(accepted),
            Err(error) if peer_aborted(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections, retrying");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_BACKOFF)).await?;
            }
        }
    }
}

/// Returns true if the peer closed the connection before it was accepted, which needs no backoff.
fn peer_aborted(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// Rejects a connection with 503 if that fits the socket's buffer. TLS connections are only closed,
/// because a handshake would need the capacity that is missing.
fn reject(socket: &TcpStream, config: &ListenerConfig) {
    tracing::debug!("connection rejected: connections_max reached");
    if config.tls.is_some() {
        return;
    }
    let problem = Problem::new(Code::Unavailable, "the server is at its connection limit")
        .retry_after(Duration::from_secs(1));
    if let Err(error) = socket.try_write(&hyper_io::encode_response(&problem, &RequestId::fresh()))
    {
        tracing::debug!(%error, "cannot send 503 to a rejected connection");
    }
}
