//! A scripted HTTP server on a real socket that records its requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, HeaderName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Reaction to one request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Returns this status, header lines and body.
    Answer(u16, &'static str, &'static str),
    /// Reads the request and sends nothing.
    Hang,
    /// Closes the connection without a response.
    Close,
    /// Returns 200 and never finishes the body.
    Drip,
    /// Returns a complete 200 and closes the connection without announcing it.
    Leave,
    /// Returns 200 and closes the connection in the middle of the body.
    Break,
}

pub(crate) const OK: Reply = Reply::Answer(200, "", "thanks");
pub(crate) const BROKEN: Reply = Reply::Answer(500, "", "out of cheese");

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    /// Returns the signature headers for the official library.
    pub(crate) fn headers(&self) -> HeaderMap {
        ["webhook-id", "webhook-timestamp", "webhook-signature"]
            .into_iter()
            .map(|name| (HeaderName::from_static(name), self.header(name).parse().unwrap()))
            .collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn event(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// Chooses the reply to a request by its index and content.
type Script = Arc<dyn Fn(usize, &ReceivedRequest) -> Reply + Send + Sync>;

pub(crate) struct FakeHttpServer {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<ReceivedRequest>>>,
    count: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

impl FakeHttpServer {
    pub(crate) async fn start(
        script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (sender, count) = watch::channel(0);
        let (kept, script): (_, Script) = (Arc::clone(&got), Arc::new(script));
        let sender = Arc::new(sender);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(
                    stream,
                    Arc::clone(&kept),
                    Arc::clone(&script),
                    Arc::clone(&sender),
                ));
            }
        });
        Self { address, got, count, task }
    }

    /// Starts a server that accepts every request.
    pub(crate) async fn good() -> Self {
        Self::start(|_, _| OK).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns the first `count` requests once they have arrived.
    pub(crate) async fn first(&self, count: usize) -> Vec<ReceivedRequest> {
        self.count.clone().wait_for(|came| *came >= count).await.unwrap();
        self.all().into_iter().take(count).collect()
    }

    /// Returns all requests once `enough` holds.
    pub(crate) async fn until(
        &self,
        enough: impl Fn(&[ReceivedRequest]) -> bool,
    ) -> Vec<ReceivedRequest> {
        self.count.clone().wait_for(|_| enough(&self.got.lock().unwrap())).await.unwrap();
        self.all()
    }

    pub(crate) fn all(&self) -> Vec<ReceivedRequest> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) async fn events(&self, count: usize) -> Vec<String> {
        self.first(count).await.iter().map(ReceivedRequest::event).collect()
    }
}

impl Drop for FakeHttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    got: Arc<Mutex<Vec<ReceivedRequest>>>,
    script: Script,
    count: Arc<watch::Sender<usize>>,
) {
    while let Some(request) = read(&mut stream).await {
        let number = {
            let mut all = got.lock().unwrap();
            all.push(request.clone());
            all.len() - 1
        };
        let reply = script(number, &request);
        let going_on = match reply {
            Reply::Answer(status, headers, body) => {
                let length = body.len();
                let response = format!(
                    "HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
                );
                stream.write_all(response.as_bytes()).await.is_ok()
            }
            Reply::Close => false,
            Reply::Leave | Reply::Break => {
                let length = if matches!(reply, Reply::Leave) { 4 } else { 100 };
                let response = format!("HTTP/1.1 200 Said\r\ncontent-length: {length}\r\n\r\nbye!");
                stream.write_all(response.as_bytes()).await.ok();
                false
            }
            Reply::Drip => {
                let head = "HTTP/1.1 200 Said\r\ncontent-length: 100\r\n\r\nslow";
                stream.write_all(head.as_bytes()).await.ok();
                count.send_modify(|count| *count += 1);
                std::future::pending().await
            }
            Reply::Hang => {
                count.send_modify(|count| *count += 1);
                std::future::pending().await
            }
        };
        count.send_modify(|count| *count += 1);
        if !going_on {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            bytes.drain(..end + 4);
            break (head, length.unwrap_or(0_usize));
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest { head, body: bytes })
}
