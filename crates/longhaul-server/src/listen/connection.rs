//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::body::PromptBody;
use super::socket::{Clocked, Line};
use super::wire::{self, Wire};
use super::{Client, ConnLimits, Front, Scheme, Tls};
use crate::problem::{Code, Problem};
use crate::request_id::RequestId;
use crate::secure;

/// What hyper buffers of an answer before it waits for the peer to read.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

/// How long a closed connection is still read. A socket closed with unread bytes is reset, and
/// the reset can overtake the answer that says why.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one connection to its end; nobody hears of its errors, they are the peer's.
pub(super) async fn run(
    socket: TcpStream,
    peer: SocketAddr,
    app: Router,
    front: Arc<Front>,
    stop: CancellationToken,
) {
    // Without it, small answers wait for the peer's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let socket = Clocked::new(socket, front.limits.write_timeout);
    let ended = match greet(socket, &front, &stop).await {
        Ok(Greeted::Line(line)) => drive(line, peer, app, front, &stop).await,
        Ok(Greeted::InClear(socket)) => refuse_in_clear(socket).await,
        Ok(Greeted::Stopped) => return,
        Err(error) => Err(error),
    };
    match ended {
        Ok(wire) => close(wire, &stop).await,
        Err(error) => tracing::debug!(%error, %peer, "connection ended"),
    }
}

/// What became of a peer's first bytes.
enum Greeted {
    Line(Line),
    /// It speaks HTTP where TLS is spoken.
    InClear(Clocked),
    /// The server stops.
    Stopped,
}

/// Makes a line of a socket: by a TLS handshake, if that is what is spoken here, which has as
/// long as a request's head has.
async fn greet(socket: Clocked, front: &Front, stop: &CancellationToken) -> io::Result<Greeted> {
    let Some(tls) = &front.tls else { return Ok(Greeted::Line(Line::Plain(socket))) };
    let greeted = tokio::time::timeout(front.limits.header_timeout, shake(socket, tls));
    match stop.run_until_cancelled(greeted).await {
        Some(greeted) => greeted?,
        None => Ok(Greeted::Stopped),
    }
}

async fn shake(socket: Clocked, tls: &Tls) -> io::Result<Greeted> {
    // Methods begin with a letter, and no record of TLS does.
    if socket.first_byte().await?.is_some_and(|byte| byte.is_ascii_alphabetic()) {
        return Ok(Greeted::InClear(socket));
    }
    tls.accept(socket).await.map(Greeted::Line)
}

/// Whoever mistook the port finds out by more than a broken connection.
async fn refuse_in_clear(socket: Clocked) -> io::Result<Wire> {
    let mut wire = Wire::new(Line::Plain(socket));
    let problem = Problem::new(Code::BadRequest, "this port speaks TLS: use https://");
    wire.write_all(&wire::answer(&problem, &RequestId::fresh())).await?;
    Ok(wire)
}

/// Runs HTTP on the line and gives it back, with everything written.
async fn drive(
    line: Line,
    peer: SocketAddr,
    app: Router,
    front: Arc<Front>,
    stop: &CancellationToken,
) -> io::Result<Wire> {
    let limits = front.limits;
    let scheme = if line.is_tls() { Scheme::Https } else { Scheme::Http };
    let wire = Wire::new(line);
    let (two_lengths, requests) = (wire.two_lengths(), AtomicU64::new(0));
    let io = TokioIo::new(wire);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Client::of(peer, scheme, request.headers(), &front.proxies);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(client);
        let is_clear = !two_lengths.has(number);
        let answered = answer(app.clone(), request, limits, is_clear);
        // Boxed, because hyper gives the socket back only if it may move the future.
        Box::pin(async move {
            let mut answered = answered.await?;
            if scheme == Scheme::Https {
                secure::insist_on_tls(answered.headers_mut());
            }
            Ok::<_, Infallible>(answered)
        })
    });
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.headers_max)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(limits.header_bytes_max.max(BUFFER_BYTES_MIN))
        .serve_connection(io, service);

    let mut stopping = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| http.poll_without_shutdown(cx)) => break ended,
            () = stop.cancelled(), if !stopping => stopping = true,
        }
        Pin::new(&mut http).graceful_shutdown();
    };
    let mut wire = http.into_parts().io.into_inner();
    match ended {
        Ok(()) => wire.release().await?,
        Err(error) if error.is_parse() => wire.release_refusal().await?,
        Err(error) => {
            tracing::debug!(%error, %peer, "connection ended");
            wire.release().await?;
        }
    }
    Ok(wire)
}

/// Sends our end, and waits a moment for theirs.
async fn close(mut wire: Wire, stop: &CancellationToken) {
    if wire.shutdown().await.is_err() {
        return;
    }
    // Small: it is part of every connection's task.
    let mut sink = [0; 512];
    let drain = async { while matches!(wire.read(&mut sink).await, Ok(1..)) {} };
    stop.run_until_cancelled(tokio::time::timeout(LINGER, drain)).await;
}

/// Hands a request to the application, with a body that does not wait for ever.
async fn answer(
    app: Router,
    request: Request<Incoming>,
    limits: ConnLimits,
    is_clear: bool,
) -> Result<Response<Body>, Infallible> {
    if let Some(problem) = refusal(&request, limits, is_clear) {
        let mut refused = problem.respond(&RequestId::of(request.headers()));
        // Whatever follows is not worth reading, and may not be what it seems.
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Ok(refused);
    }
    let (parts, body) = request.into_parts();
    let body = PromptBody::new(body, limits.body_timeout, limits.body_bytes_per_s_min);
    let late = body.late();
    let response = app.oneshot(Request::from_parts(parts, Body::new(body))).await?;
    Ok(if late.is_set() && !response.status().is_success() {
        timed_out(&response)
    } else {
        response
    })
}

/// What is wrong with a request's head, whatever it asks for.
fn refusal(request: &Request<Incoming>, limits: ConnLimits, is_clear: bool) -> Option<Problem> {
    let bad = |detail| Some(Problem::new(Code::BadRequest, detail));
    if !is_clear {
        return bad("Content-Length and Transfer-Encoding exclude each other");
    }
    if !names_its_host(request) {
        return bad("HTTP/1.1 needs exactly one Host header");
    }
    let Some(path) = request.uri().path_and_query() else {
        // The form with a host and nothing else is for CONNECT, which no route has.
        let is_connect = *request.method() == Method::CONNECT;
        return (!is_connect).then(|| bad("the request's target has no path")).flatten();
    };
    if path.as_str().len() > limits.uri_bytes_max {
        let detail = format!("path and query have more than {} bytes", limits.uri_bytes_max);
        return Some(Problem::new(Code::UriTooLong, detail));
    }
    None
}

/// RFC 9112 3.2: whoever stands between us and a peer may go by another host than we would.
fn names_its_host(request: &Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11)
}

/// The handler saw a broken body and answered as it saw fit; the reason is ours to tell.
fn timed_out(response: &Response<Body>) -> Response<Body> {
    let id = RequestId::of(response.headers());
    let problem = Problem::new(Code::RequestTimeout, "the body did not arrive in time");
    let mut answer = problem.respond(&id);
    // What is left of the body would be taken for the next request.
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
