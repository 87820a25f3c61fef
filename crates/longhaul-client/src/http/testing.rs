//! A scripted server: one response per connection, which may break off anywhere.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Client;

pub(super) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Sends the next text to each connection and closes it. An empty text is no response.
    pub(super) async fn start(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            for response in responses {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                log.lock().unwrap().push(request);
                let response = response.replacen("\r\n", "\r\nconnection: close\r\n", 1);
                socket.write_all(response.as_bytes()).await.unwrap();
            }
        });
        Self { address, requests }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(&self.address, Some("lh_key".to_owned())).unwrap()
    }

    /// Returns the requests so far, with head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let complete = match length {
                Some(length) => body.len() >= length.parse().unwrap(),
                None => !head.contains("chunked") || body.ends_with("0\r\n\r\n"),
            };
            if complete {
                return text;
            }
        }
        if socket.read_buf(&mut bytes).await.unwrap() == 0 {
            return text;
        }
    }
}

pub(super) fn json(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

pub(super) fn problem(status: u16, code: &str) -> String {
    let body = format!(
        r#"{{"type":"about:blank","title":"t","status":{status},"detail":"d","code":"{code}","requestId":"r"}}"#
    );
    json(&format!("{status} No"), &body)
}

/// An event stream that ends with the connection, so that any place can be its end.
pub(super) fn event_stream(frames: &[&str]) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}", frames.concat())
}

pub(super) fn event(version: u64, status: &str) -> String {
    format!("event: job\nid: {version}\ndata: {}\n\n", job(version, status))
}

pub(super) fn job(version: u64, status: &str) -> String {
    format!(
        r#"{{"jobId":"01KA","kind":"demo","queue":"default","status":"{status}","phase":null,"priority":0,"attempt":1,"maxAttempts":3,"progress":null,"labels":{{}},"version":{version},"idempotencyKey":null,"createdAt":"2026-11-15T08:00:00.000Z","runAt":"2026-11-15T08:00:00.000Z","startedAt":null,"completedAt":null,"expiresAt":null,"result":null,"error":null,"artifacts":[],"statusUrl":"/v1/jobs/01KA","eventsUrl":"/v1/jobs/01KA/events","retryAfter":1,"forkedFrom":null,"parentId":null}}"#
    )
}
