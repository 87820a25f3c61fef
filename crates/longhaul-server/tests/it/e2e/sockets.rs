//! Slow and silent peers, against the real binary with short timeouts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::home::Home;
use super::http;

const SHORT: &str = "[http]\nheader_timeout = \"200ms\"\nbody_timeout = \"200ms\"\n";

/// Everything until the server closes.
async fn until_closed(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn silent_slow_and_idle_peers_are_closed_while_others_are_served() {
    let home = Home::with(SHORT);
    let _server = home.start().await;
    let open = async |text: &str| {
        let mut socket = TcpStream::connect(home.address()).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        socket
    };
    let silent = open("").await;
    let half = open("GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    let idle = open("GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let slow_body = open(
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    )
    .await;
    let served = http::ask(home.address(), "GET /readyz", &[], "").await.unwrap();
    assert_eq!(served.status, 200);
    assert_eq!(until_closed(silent).await, "");
    assert_eq!(until_closed(half).await, "");
    let answered = until_closed(idle).await;
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    let refused = until_closed(slow_body).await;
    assert!(
        refused.starts_with("HTTP/1.1 408 ") && refused.contains("request-timeout"),
        "{refused}"
    );
    let served = http::ask(home.address(), "GET /readyz", &[], "").await.unwrap();
    assert_eq!(served.status, 200);
}
