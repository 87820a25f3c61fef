//! A listener with handlers that tests control, and raw connections to it.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::header::CONTENT_LENGTH;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::stream::{self, Stream, StreamExt};
use longhaul_server::listen::{ClientInfo, ConnLimits, ListenerConfig, serve};
use longhaul_server::problem::with_layers;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_mins(10);

/// Long timeouts, so that a test observes only the limit that it shortens.
pub(crate) const PATIENT: ConnLimits = ConnLimits {
    header_timeout: LONG,
    body_timeout: LONG,
    body_bytes_per_s_min: 16 * 1024,
    write_timeout: LONG,
    stop_grace: LONG,
    connections_max: 100,
    uri_bytes_max: 1024,
    header_bytes_max: 16 * 1024,
    headers_max: 32,
};

pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<()>,
    /// Receives a message when the `/held` handler starts.
    pub(crate) entered: mpsc::UnboundedReceiver<()>,
    /// Lets the `/held` handler continue.
    pub(crate) release: CancellationToken,
}

pub(crate) async fn start(limits: ConnLimits) -> Server {
    start_behind(ListenerConfig::plain(limits)).await
}

pub(crate) async fn start_behind(front: ListenerConfig) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, release) = (CancellationToken::new(), CancellationToken::new());
    let (enter, entered) = mpsc::unbounded_channel();
    let app = app(enter, release.clone());
    let running = tokio::spawn(serve(listener, app, front, stop.clone()));
    Server { addr, stop, running, entered, release }
}

fn app(enter: mpsc::UnboundedSender<()>, release: CancellationToken) -> Router {
    let held = move || async move {
        enter.send(()).unwrap();
        release.cancelled().await;
        "held"
    };
    with_layers(
        Router::new()
            .route(
                "/peer",
                get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() }),
            )
            .route("/client", get(client))
            .route("/echo", post(|body: Bytes| async move { body }))
            .route("/ignore", post(|| async { "ignored" }))
            .route("/ticks", get(ticks))
            .route("/endless", get(|| async { Body::from_stream(endless()) }))
            .route("/lookalike", get(lookalike))
            .route("/held", get(held)),
    )
}

async fn client(Extension(client): Extension<ClientInfo>) -> String {
    format!("{}://{}", client.scheme.as_str(), client.address)
}

fn endless() -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    stream::repeat_with(move || Ok(chunk.clone()))
}

/// Response of hyper to an unreadable request.
pub(crate) const REFUSAL: &str =
    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A body whose last write is, byte for byte, a refusal.
async fn lookalike() -> impl IntoResponse {
    let chunks = stream::iter(["start", REFUSAL]).then(|chunk| async move {
        // Lets hyper write the chunk before it polls for the next.
        tokio::task::yield_now().await;
        Ok::<_, std::io::Error>(chunk)
    });
    let length = "start".len() + REFUSAL.len();
    ([(CONTENT_LENGTH, length.to_string())], Body::from_stream(chunks))
}

/// An event stream that is silent for several of the short timeouts between its events.
async fn ticks() -> Body {
    let ticks = stream::iter(0..2).then(|n| async move {
        // tidy: allow(sleep) the silence is what this is about
        tokio::time::sleep(SHORT * 3).await;
        Ok::<_, std::io::Error>(Bytes::from(format!("tick {n}\n")))
    });
    Body::from_stream(ticks)
}

pub(crate) async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.addr).await.unwrap()
}

pub(crate) async fn send(server: &Server, text: &str) -> TcpStream {
    let mut socket = connect(server).await;
    socket.write_all(text.as_bytes()).await.unwrap();
    socket
}

/// Everything until the server closes.
pub(crate) async fn until_closed(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Everything until `end` arrives.
pub(crate) async fn until(socket: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).ends_with(end) {
        bytes.push(socket.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

pub(crate) fn assert_problem(response: &str, status: &str, code: &str) {
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    for field in ["content-type: application/problem+json", "cache-control: no-store", "nosniff"] {
        assert!(response.contains(field), "{response}");
    }
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["code"], code);
    assert!(response.contains(&format!("x-request-id: {}", body["requestId"].as_str().unwrap())));
}
