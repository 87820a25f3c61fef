//! One HTTP/1.1 connection, from the handshake to the close.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderValue, Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::hyper_io::{self, HyperIo};
use super::stream::{MaybeTlsStream, TimedSocket};
use super::timed_body::TimedBody;
use super::{ClientInfo, ConnLimits, ListenerConfig, Scheme, Tls};
use crate::problem::{Code, Problem};
use crate::request_id::RequestId;
use crate::security_headers;

/// Minimum size of hyper's response buffer.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

/// Header fields that hyper accepts by default.
const HYPER_HEADERS_MAX: usize = 100;

/// Time to keep reading after the write side is closed. Closing a socket with unread bytes resets
/// it, and the reset can overtake the error response.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one connection to its end. Its errors are the peer's and are logged at debug level only.
pub(super) async fn run(
    socket: TcpStream,
    peer: SocketAddr,
    app: Router,
    config: Arc<ListenerConfig>,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    // Without it, small responses wait for the peer's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let socket = TimedSocket::new(socket, config.limits.write_timeout);
    let ended = match accept(socket, &config, &stop).await {
        Ok(Handshake::Complete(stream)) => serve_http(stream, peer, app, config, &stop).await,
        Ok(Handshake::PlainHttp(socket)) => reject_plain_http(socket).await,
        Ok(Handshake::Stopped) => return,
        Err(error) => Err(error),
    };
    match ended {
        Ok(io) => close(io, &stop).await,
        Err(error) => tracing::debug!(%error, %peer, "connection ended"),
    }
}

/// Result of accepting a connection.
enum Handshake {
    Complete(MaybeTlsStream),
    /// The peer sent plain HTTP to a TLS port.
    PlainHttp(TimedSocket),
    /// The server is stopping.
    Stopped,
}

/// Performs the TLS handshake, if TLS is configured, within `header_timeout`.
async fn accept(
    socket: TimedSocket,
    config: &ListenerConfig,
    stop: &CancellationToken,
) -> io::Result<Handshake> {
    let Some(tls) = &config.tls else {
        return Ok(Handshake::Complete(Either::Left(socket)));
    };
    // Boxed, because its state would enlarge the task of every connection for as long as it lasts.
    let handshake = Box::pin(tls_handshake(socket, tls));
    let handshake = tokio::time::timeout(config.limits.header_timeout, handshake);
    match stop.run_until_cancelled(handshake).await {
        Some(handshake) => handshake?,
        None => Ok(Handshake::Stopped),
    }
}

async fn tls_handshake(socket: TimedSocket, tls: &Tls) -> io::Result<Handshake> {
    // HTTP methods begin with a letter; no TLS record does.
    if socket.first_byte().await?.is_some_and(|byte| byte.is_ascii_alphabetic()) {
        return Ok(Handshake::PlainHttp(socket));
    }
    tls.accept(socket).await.map(Handshake::Complete)
}

/// Responds 400 to plain HTTP on a TLS port, so that the client sees more than a closed connection.
async fn reject_plain_http(socket: TimedSocket) -> io::Result<HyperIo> {
    let mut io = HyperIo::new(Either::Left(socket));
    let problem = Problem::new(Code::BadRequest, "this port expects TLS: use https://");
    io.write_all(&hyper_io::encode_response(&problem, &RequestId::fresh())).await?;
    Ok(io)
}

/// Serves HTTP on the stream and returns it with all responses written.
async fn serve_http(
    stream: MaybeTlsStream,
    peer: SocketAddr,
    app: Router,
    config: Arc<ListenerConfig>,
    stop: &CancellationToken,
) -> io::Result<HyperIo> {
    let limits = config.limits;
    let scheme = match &stream {
        Either::Left(_) => Scheme::Http,
        Either::Right(_) => Scheme::Https,
    };
    let io = TokioIo::new(HyperIo::new(stream));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let client = ClientInfo::of(peer, scheme, request.headers(), &config.proxies);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(client);
        let response = respond(app.clone(), request, limits);
        // Boxed, because hyper returns the socket only if the future is `Unpin`.
        Box::pin(async move {
            let mut response = response.await?;
            if scheme == Scheme::Https {
                security_headers::insist_on_tls(response.headers_mut());
            }
            Ok::<_, Infallible>(response)
        })
    });
    let mut http = http_builder(limits).serve_connection(io, service);

    let mut stopping = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| http.poll_without_shutdown(cx)) => break ended,
            () = stop.cancelled(), if !stopping => stopping = true,
        }
        Pin::new(&mut http).graceful_shutdown();
    };
    let mut io = http.into_parts().io.into_inner();
    match ended {
        Ok(()) => io.flush_delayed().await?,
        Err(error) if error.is_parse() => io.replace_delayed().await?,
        Err(error) => {
            tracing::debug!(%error, %peer, "connection ended");
            io.flush_delayed().await?;
        }
    }
    Ok(io)
}

fn http_builder(limits: ConnLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(limits.header_bytes_max.max(BUFFER_BYTES_MIN));
    // Any explicit number, even hyper's own, makes it fill a list of this length for each request.
    if limits.headers_max != HYPER_HEADERS_MAX {
        builder.max_headers(limits.headers_max);
    }
    builder
}

/// Closes the write side, then reads until the peer closes too or `LINGER` passes.
async fn close(mut io: HyperIo, stop: &CancellationToken) {
    if io.shutdown().await.is_err() {
        return;
    }
    // Small, because it is part of every connection's task.
    let mut sink = [0; 512];
    let drain = async { while matches!(io.read(&mut sink).await, Ok(1..)) {} };
    stop.run_until_cancelled(tokio::time::timeout(LINGER, drain)).await;
}

/// Passes a request to the application, with a time limit on its body.
async fn respond(
    app: Router,
    request: Request<Incoming>,
    limits: ConnLimits,
) -> Result<Response<Body>, Infallible> {
    if let Some(problem) = check_head(&request, limits) {
        let mut rejected = problem.respond(&RequestId::of(request.headers()));
        // The rest of the connection may not be what it seems.
        rejected.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Ok(rejected);
    }
    let (parts, body) = request.into_parts();
    let body = TimedBody::new(body, limits.body_timeout, limits.body_bytes_per_s_min);
    let timed_out = body.timeout_flag();
    let response = app.oneshot(Request::from_parts(parts, Body::new(body))).await?;
    Ok(if timed_out.is_set() && !response.status().is_success() {
        timeout_response(&response)
    } else {
        response
    })
}

/// Returns the problem with a request's head, if it is not acceptable on any route.
///
/// `Content-Length` together with `Transfer-Encoding`, which can smuggle a second request past a proxy,
/// is left to hyper: it ignores the length and closes the connection after the response (RFC 9112, 6.1).
fn check_head(request: &Request<Incoming>, limits: ConnLimits) -> Option<Problem> {
    let bad = |detail| Some(Problem::new(Code::BadRequest, detail));
    if !has_valid_host(request) {
        return bad("HTTP/1.1 requires exactly one Host header");
    }
    let Some(path) = request.uri().path_and_query() else {
        // Authority form belongs to CONNECT, which no route handles.
        let is_connect = *request.method() == Method::CONNECT;
        return (!is_connect).then(|| bad("the request target has no path")).flatten();
    };
    if path.as_str().len() > limits.uri_bytes_max {
        let detail = format!("path and query exceed {} bytes", limits.uri_bytes_max);
        return Some(Problem::new(Code::UriTooLong, detail));
    }
    None
}

/// Returns whether the request has exactly one `Host` header (RFC 9112, 3.2), because with several of them a
/// proxy may choose another one.
fn has_valid_host(request: &Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11)
}

/// Replaces the error response of a handler whose body timed out by 408.
fn timeout_response(response: &Response<Body>) -> Response<Body> {
    let id = RequestId::of(response.headers());
    let problem = Problem::new(Code::RequestTimeout, "the request body did not arrive in time");
    let mut response = problem.respond(&id);
    // The rest of the body would be parsed as the next request.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
