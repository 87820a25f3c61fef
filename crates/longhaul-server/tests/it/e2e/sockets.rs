//! Slow and silent peers, against the real binary with short timeouts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::raw_http;
use crate::harness::{Installation, LONGHAUL, TestProcess};

const SHORT: &str = "[http]\nheader_timeout = \"200ms\"\nbody_timeout = \"200ms\"\n";

/// Everything until the server closes.
async fn until_closed(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn silent_slow_and_idle_connections_are_closed() {
    let install = Installation::with(SHORT);
    let _server = install.start().await;
    let open = async |text: &str| {
        let mut socket = TcpStream::connect(install.address()).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        socket
    };
    let silent = open("").await;
    let half = open("GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    let idle = open("GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let slow_body = open(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    )
    .await;
    let served = raw_http::send(install.address(), "GET /readyz", &[], "").await.unwrap();
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
    let served = raw_http::send(install.address(), "GET /readyz", &[], "").await.unwrap();
    assert_eq!(served.status, 200);
}

/// One third sends nothing, one third half a head, one third half a body.
const SLOW: [&str; 3] = [
    "",
    "GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ",
    "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
];

#[tokio::test]
async fn hundreds_of_slow_connections_are_closed_without_affecting_others() {
    let install = Installation::with(
        "[http]\nheader_timeout = \"2s\"\nbody_timeout = \"2s\"\nconnections_max = 310\n",
    );
    let _server = install.start().await;
    let mut slow = Vec::new();
    for text in SLOW.iter().cycle().take(300) {
        let mut socket = TcpStream::connect(install.address()).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        slow.push(tokio::spawn(until_closed(socket)));
    }
    let ask =
        async || raw_http::send(install.address(), "GET /readyz", &[], "").await.unwrap().status;
    assert_eq!(ask().await, 200);
    let (mut silent, mut told) = (0, 0);
    for closed in slow {
        match closed.await.unwrap().as_str() {
            "" => silent += 1,
            text if text.starts_with("HTTP/1.1 408 ") => told += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((silent, told), (200, 100));
    assert_eq!(ask().await, 200);
}

/// The server must neither exit nor spin, and continues once file descriptors are free.
#[tokio::test]
async fn server_out_of_file_descriptors_recovers() {
    let install = Installation::with("[http]\nheader_timeout = \"2s\"\nconnections_max = 10000\n");
    let mut limited = install.command("sh");
    let listen = install.address().to_string();
    let command = format!("ulimit -n 64 && exec {LONGHAUL} serve --listen {listen}");
    limited.args(["-c", &command]);
    let server = install.wait_ready(TestProcess::spawn(limited)).await;
    let mut peers = Vec::new();
    for _ in 0..100 {
        peers.push(TcpStream::connect(install.address()).await.unwrap());
    }
    drop(peers);
    // Those that wait to be taken are closed first, and may take a further one along.
    let response = loop {
        if let Ok(response) = raw_http::send(install.address(), "GET /readyz", &[], "").await {
            break response;
        }
    };
    assert_eq!(response.status, 200);
    drop(server);
}
