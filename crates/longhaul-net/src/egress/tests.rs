//! The policy by tables, and the client against endpoints behind real sockets.

mod bad_endpoints;
mod connections;
mod tls;
mod url_checks;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::resolve::{Resolver, Resolving};
use super::{BODY_PREFIX_DEFAULT, Client, EgressRequest, Policy};

/// Allowed by [`policy`].
const GOOD: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Not allowed.
const INNER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 215, 14));

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

fn policy() -> Policy {
    Policy::new(["127.0.0.1/32".parse().unwrap()])
}

/// Resolves every name to the next of these lists; the last one repeats.
struct FixedResolver(Mutex<VecDeque<Vec<IpAddr>>>);

impl FixedResolver {
    fn returning<const N: usize>(lists: [&[IpAddr]; N]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(lists.into_iter().map(<[_]>::to_vec).collect())))
    }
}

impl Resolver for FixedResolver {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        let mut lists = self.0.lock().unwrap();
        let list = match lists.len() {
            0 => None,
            1 => lists.front().cloned(),
            _ => lists.pop_front(),
        };
        Box::pin(async move { list.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// Behaviour of an endpoint with a connection.
#[derive(Clone)]
enum Behaviour {
    /// Reads the request, responds and closes.
    Respond(Vec<u8>),
    /// Reads the request, writes this and hangs.
    Hold(Vec<u8>),
    /// Closes with the request unread, which resets the connection.
    Reset,
    /// Responds with an endless body, and reports when it is cut off.
    Flood,
}

/// Endpoint that records its requests.
struct TestEndpoint {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
}

impl TestEndpoint {
    async fn start(behaviour: Behaviour) -> Self {
        Self::on(TcpListener::bind((GOOD, 0)).await.unwrap(), behaviour)
    }

    /// Two endpoints on one port: at an allowed address and at a denied one.
    async fn pair(behaviour: Behaviour) -> (Self, Self) {
        loop {
            let good = TcpListener::bind((GOOD, 0)).await.unwrap();
            let port = good.local_addr().unwrap().port();
            // Another process may use the port there.
            if let Ok(inner) = TcpListener::bind((INNER, port)).await {
                return (Self::on(good, behaviour.clone()), Self::on(inner, behaviour));
            }
        }
    }

    fn on(listener: TcpListener, behaviour: Behaviour) -> Self {
        let address = listener.local_addr().unwrap();
        let (seen, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(behave(socket, behaviour.clone(), seen.clone()));
            }
        });
        Self { address, requests }
    }

    async fn request(&mut self) -> String {
        self.requests.recv().await.unwrap()
    }

    /// Connections are accepted in order: if this one is the first, there was none before it.
    async fn was_never_called(mut self) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(b"GET /the-first HTTP/1.1\r\n\r\n").await.unwrap();
        let first = self.request().await;
        assert!(first.starts_with("GET /the-first"), "{first}");
    }

    fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn behave(mut socket: TcpStream, behaviour: Behaviour, seen: mpsc::UnboundedSender<String>) {
    if matches!(behaviour, Behaviour::Reset) {
        socket.readable().await.unwrap();
        return;
    }
    seen.send(read_request(&mut socket).await).ok();
    match behaviour {
        Behaviour::Respond(bytes) => socket.write_all(&bytes).await.unwrap(),
        Behaviour::Hold(bytes) => {
            socket.write_all(&bytes).await.unwrap();
            std::future::pending::<()>().await;
        }
        Behaviour::Flood => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
            socket.write_all(head).await.unwrap();
            while socket.write_all(&[b'x'; 8192]).await.is_ok() {}
            seen.send("cut off".to_owned()).ok();
        }
        Behaviour::Reset => {}
    }
}

/// Head and body of a request.
async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        let read = socket.read_buf(&mut bytes).await.unwrap_or_default();
        if read == 0 {
            return text;
        }
    }
}

/// Request with a long timeout.
fn post(url: impl Into<String>) -> EgressRequest {
    EgressRequest {
        url: url.into(),
        method: Method::POST,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        timeout: Duration::from_mins(1),
        body_prefix_max: BODY_PREFIX_DEFAULT,
    }
}

fn client(resolver: Arc<FixedResolver>) -> Client {
    Client::build(policy(), resolver, None)
}

/// Client whose resolver knows no name.
fn client_without_names() -> Client {
    client(FixedResolver::returning([]))
}
