//! The accept loop against peers that behave badly, on real sockets.
//!
//! Timeouts are short, and each test waits for what the peer observes: a response or the end of
//! the connection. A broken timeout shows as a test that hangs, which the runner ends. Where a
//! test sleeps, the silence is what it is about.

pub(crate) mod server;
pub(crate) mod tls;

use longhaul_server::listen::{ConnLimits, ListenerConfig, TrustedProxies};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use server::{
    PATIENT, REFUSAL, SHORT, assert_problem, connect, send, start, start_behind, until,
    until_closed,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[tokio::test]
async fn connection_that_sends_nothing_is_closed() {
    let server = start(ConnLimits { header_timeout: SHORT, ..PATIENT }).await;
    assert_eq!(until_closed(&mut connect(&server).await).await, "");
}

#[tokio::test]
async fn connection_that_sends_half_a_head_is_closed() {
    let server = start(ConnLimits { header_timeout: SHORT, ..PATIENT }).await;
    let mut socket = send(&server, "GET /peer HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    assert_eq!(until_closed(&mut socket).await, "");
}

#[tokio::test]
async fn slow_request_head_does_not_extend_its_timeout() {
    let server = start(ConnLimits { header_timeout: SHORT, ..PATIENT }).await;
    let (mut reader, mut writer) = send(&server, "GET /peer HTTP/1.1\r\nx: ").await.into_split();
    let drip = tokio::spawn(async move {
        while writer.write_all(b"y").await.is_ok() {
            // tidy: allow(sleep) a slow peer is what this is about
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    // A reset is an end too: bytes were on their way when the server closed.
    let mut sink = Vec::new();
    reader.read_to_end(&mut sink).await.ok();
    assert_eq!(sink, b"");
    drip.await.unwrap();
}

#[tokio::test]
async fn idle_keep_alive_connection_is_closed_after_its_answer() {
    let server = start(ConnLimits { header_timeout: SHORT, ..PATIENT }).await;
    let mut socket = send(&server, "GET /peer HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let response = until_closed(&mut socket).await;
    assert!(response.ends_with(&socket.local_addr().unwrap().to_string()), "{response}");
}

#[tokio::test]
async fn slow_body_gets_408_and_the_connection_is_closed() {
    let server = start(ConnLimits { body_timeout: SHORT, ..PATIENT }).await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nfew";
    let response = until_closed(&mut send(&server, head).await).await;
    assert_problem(&response, "408", "request-timeout");
}

#[tokio::test]
async fn unread_body_does_not_keep_the_connection_open() {
    let server = start(PATIENT).await;
    let head = "POST /ignore HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nfew";
    let response = until_closed(&mut send(&server, head).await).await;
    assert!(response.ends_with("ignored"), "{response}");
}

#[tokio::test]
async fn upload_timeout_grows_with_received_bytes() {
    let limits = ConnLimits { body_timeout: SHORT, body_bytes_per_s_min: 1, ..PATIENT };
    let server = start(limits).await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 105\r\n\r\n";
    let mut socket = send(&server, &format!("{head}{}", "x".repeat(100))).await;
    // The hundred bytes earned a hundred seconds; what comes after the timeout is still taken.
    // tidy: allow(sleep) that the timeout passes is what this is about
    tokio::time::sleep(SHORT * 2).await;
    socket.write_all(b"later").await.unwrap();
    let response = until_closed(&mut socket).await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("xlater"), "{response}");
}

#[tokio::test]
async fn silent_event_stream_outlives_every_timeout() {
    let limits =
        ConnLimits { header_timeout: SHORT, body_timeout: SHORT, write_timeout: SHORT, ..PATIENT };
    let server = start(limits).await;
    let mut socket = send(&server, "GET /ticks HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let response = until_closed(&mut socket).await;
    assert!(
        response.contains("tick 0") && response.ends_with("tick 1\n\r\n0\r\n\r\n"),
        "{response}"
    );
}

#[tokio::test]
async fn connection_that_stops_reading_is_closed() {
    let server = start(ConnLimits { write_timeout: SHORT, ..PATIENT }).await;
    let mut unread = send(&server, "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until(&mut unread, "\r\n\r\n").await;
    // Only the stalled connection's end lets the server end: its grace is ten minutes.
    server.stop.cancel();
    server.running.await.unwrap();
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = start(PATIENT).await;
    let one = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\none";
    let two = one.replace("one", "two");
    let mut socket = send(&server, &format!("{one}{two}")).await;
    until(&mut socket, "\r\n\r\none").await;
    until(&mut socket, "\r\n\r\ntwo").await;
    socket.write_all(one.as_bytes()).await.unwrap();
    until(&mut socket, "\r\n\r\none").await;
}

#[tokio::test]
async fn malformed_head_is_a_problem() {
    let server = start(PATIENT).await;
    for bad in [
        "NONSENSE\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: nonsense\r\n\r\n",
    ] {
        let response = until_closed(&mut send(&server, bad).await).await;
        assert_problem(&response, "400", "bad-request");
    }
}

#[tokio::test]
async fn malformed_head_after_a_good_request_is_a_problem() {
    let server = start(PATIENT).await;
    let mut socket = send(&server, "GET /peer HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let peer = socket.local_addr().unwrap().to_string();
    until(&mut socket, &peer).await;
    socket.write_all(b"NONSENSE\r\n\r\n").await.unwrap();
    assert_problem(&until_closed(&mut socket).await, "400", "bad-request");
}

/// `Content-Length` beside `Transfer-Encoding` is how requests are smuggled past a proxy that obeys the other
/// one. The chunks decide, and the bytes behind them are not parsed as a second request.
#[tokio::test]
async fn request_with_content_length_and_chunks_cannot_smuggle_a_second_one() {
    let server = start(PATIENT).await;
    let smuggled = "GET /peer HTTP/1.1\r\nhost: x\r\n\r\n";
    let good = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n";
    let (length, chunked) = ("content-length: 4\r\n", "Transfer-Encoding: chunked\r\n");
    for lengths in [format!("{length}{chunked}"), format!("{chunked}{length}")] {
        let request = format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\n{lengths}\r\n3\r\nabc\r\n0\r\n\r\n{smuggled}"
        );
        let responses = until_closed(&mut send(&server, &request).await).await;
        assert_eq!(responses.matches("HTTP/1.1").count(), 1, "{responses}");
        assert!(responses.ends_with("\r\n\r\nabc"), "{responses}");

        let responses = until_closed(&mut send(&server, &format!("{good}{request}")).await).await;
        assert_eq!(responses.matches("HTTP/1.1").count(), 2, "{responses}");
        assert!(responses.ends_with("\r\n\r\nabc"), "{responses}");
    }
}

/// Malformed requests get an error below 500 and no waiting connection.
#[tokio::test]
async fn hostile_request_bytes_are_rejected() {
    let server = start(PATIENT).await;
    let get = |rest: &str| format!("GET {rest}\r\n\r\n").into_bytes();
    let field = |field: &[u8]| {
        [b"GET /peer HTTP/1.1\r\nhost: x\r\n".as_slice(), field, b"\r\n\r\n"].concat()
    };
    let chunks = |chunks: &str| {
        let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        format!("{head}{chunks}").into_bytes()
    };
    let long = format!("/{}", "y".repeat(PATIENT.uri_bytes_max));
    for (sent, status) in [
        (field(b"x: a\0b"), "400"),
        (field(b"x: a\rb"), "400"),
        (field(b"x: a\r\n b"), "400"),
        (field(b"x\0: a"), "400"),
        (field(b"x : a"), "400"),
        (field(b": a"), "400"),
        (field(b"content-length: 1\r\ncontent-length: 2"), "400"),
        (field(b"content-length: 1, 2"), "400"),
        (field(b"content-length: +1"), "400"),
        (field(b"content-length: 0x1"), "400"),
        (field(b"content-length: 99999999999999999999"), "400"),
        (field(b"transfer-encoding: chunked, gzip"), "400"),
        (chunks("zz\r\nabc\r\n0\r\n\r\n"), "400"),
        (chunks("-1\r\na\r\n0\r\n\r\n"), "400"),
        (chunks("fffffffffffffffff\r\nabc"), "400"),
        (chunks("3\r\nabcdef\r\n0\r\n\r\n"), "400"),
        (chunks("3\nabc\n0\n\n"), "400"),
        (get("/peer HTTP/9.9\r\nhost: x"), "400"),
        (get("/pe er HTTP/1.1\r\nhost: x"), "400"),
        (get("nowhere HTTP/1.1\r\nhost: x"), "400"),
        (b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), "400"),
        (b"GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "400"),
        (get(&format!("{long} HTTP/1.1\r\nhost: x")), "414"),
        (get(&format!("http://x{long} HTTP/1.1\r\nhost: x")), "414"),
    ] {
        let mut socket = connect(&server).await;
        socket.write_all(&sent).await.unwrap();
        let response = until_closed(&mut socket).await;
        let code = if status == "414" { "uri-too-long" } else { "bad-request" };
        assert!(response.contains(code), "{:?} got {response:?}", String::from_utf8_lossy(&sent));
        assert_problem(&response, status, code);
    }
    // HTTP/2 without TLS: a client takes the closed connection for a rejection.
    let mut socket = send(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(until_closed(&mut socket).await, "");
    let longest = format!("/{}", "y".repeat(PATIENT.uri_bytes_max - 1));
    let request = format!("GET {longest} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_problem(&until_closed(&mut send(&server, &request).await).await, "404", "not-found");
}

/// Mutated requests are rejected or closed, and other connections are served.
#[tokio::test]
async fn mutated_requests_are_rejected_or_closed_without_a_500() {
    let limits = ConnLimits { header_timeout: SHORT, body_timeout: SHORT, ..PATIENT };
    let server = start(limits).await;
    let whole = "POST /echo?q=%41 HTTP/1.1\r\nhost: x\r\nx-request-id: abc\r\n\
                 transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
                 POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";
    let damaged = |seed| {
        let (mut random, mut bytes) = (StdRng::seed_from_u64(seed), whole.as_bytes().to_vec());
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = random.random(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, *b"\r\n\0 :;,%\xff".choose(&mut random).unwrap()),
            }
        }
        bytes
    };
    let mut peers = JoinSet::new();
    for seed in 0..90 {
        let (bytes, mut socket) = (damaged(seed), connect(&server).await);
        peers.spawn(async move {
            socket.write_all(&bytes).await.unwrap();
            let mut response = Vec::new();
            // A reset is an end too.
            socket.read_to_end(&mut response).await.ok();
            (seed, String::from_utf8_lossy(&response).into_owned())
        });
    }
    while let Some(peer) = peers.join_next().await {
        let (seed, response) = peer.unwrap();
        assert!(!response.contains("HTTP/1.1 5"), "{seed}: {response}");
    }
    let good = until_closed(&mut send(&server, whole).await).await;
    assert_eq!(good.matches("HTTP/1.1 200").count(), 2, "{good}");
}

#[tokio::test]
async fn only_trusted_proxies_set_the_client_address() {
    let fields = "x-forwarded-for: 1.1.1.1, 203.0.113.7\r\nx-forwarded-proto: https\r\n";
    let ask = format!("GET /client HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}\r\n");
    for (proxy, client) in
        [("127.0.0.0/8", "https://203.0.113.7"), ("10.0.0.0/8", "http://127.0.0.1")]
    {
        let proxies = TrustedProxies::new([proxy.parse().unwrap()]);
        let server =
            start_behind(ListenerConfig { proxies, ..ListenerConfig::plain(PATIENT) }).await;
        let response = until_closed(&mut send(&server, &ask).await).await;
        assert!(response.ends_with(client), "{response}");
    }
}

/// An artifact may hold anything, and must not be taken for the server's own words.
#[tokio::test]
async fn response_body_that_looks_like_an_error_is_sent_unchanged() {
    let server = start(PATIENT).await;
    let get = "GET /lookalike HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut socket = send(&server, get).await;
    until(&mut socket, &format!("start{REFUSAL}")).await;
    socket.write_all(get.as_bytes()).await.unwrap();
    until(&mut socket, &format!("start{REFUSAL}")).await;
}

#[tokio::test]
async fn request_without_exactly_one_host_is_a_problem() {
    let server = start(PATIENT).await;
    for hosts in ["", "host: x\r\nhost: y\r\n"] {
        let request = format!("GET /peer HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let response = until_closed(&mut send(&server, &request).await).await;
        assert_problem(&response, "400", "bad-request");
    }
    let old = until_closed(&mut send(&server, "GET /peer HTTP/1.0\r\n\r\n").await).await;
    assert!(old.starts_with("HTTP/1.0 200"), "{old}");
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_a_problem() {
    let server = start(PATIENT).await;
    let many = "x: y\r\n".repeat(PATIENT.headers_max + 1);
    let large = format!("x: {}\r\n", "y".repeat(PATIENT.header_bytes_max));
    for fields in [many, large] {
        let request = format!("GET /peer HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        let response = until_closed(&mut send(&server, &request).await).await;
        assert_problem(&response, "431", "headers-too-large");
    }
}

#[tokio::test]
async fn too_long_uri_is_a_problem() {
    let server = start(ConnLimits { header_bytes_max: 256 * 1024, ..PATIENT }).await;
    let request = format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(70_000));
    let response = until_closed(&mut send(&server, &request).await).await;
    assert_problem(&response, "414", "uri-too-long");
}

#[tokio::test]
async fn connection_beyond_the_limit_gets_503_and_is_closed() {
    let mut server = start(ConnLimits { connections_max: 1, ..PATIENT }).await;
    let mut first =
        send(&server, "GET /held HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    server.entered.recv().await.unwrap();
    let response = until_closed(&mut connect(&server).await).await;
    assert_problem(&response, "503", "unavailable");
    assert!(response.contains("retry-after: 1\r\n"));
    server.release.cancel();
    assert!(until_closed(&mut first).await.ends_with("held"));
}

#[tokio::test]
async fn stop_finishes_requests_and_closes_idle_connections() {
    let mut server = start(PATIENT).await;
    let mut idle = connect(&server).await;
    let mut busy = send(&server, "GET /held HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.entered.recv().await.unwrap();
    server.stop.cancel();
    assert_eq!(until_closed(&mut idle).await, "");
    server.release.cancel();
    assert!(until_closed(&mut busy).await.ends_with("held"));
    server.running.await.unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err());
}

#[tokio::test]
async fn stop_closes_requests_that_exceed_the_grace_period() {
    let mut server = start(ConnLimits { stop_grace: SHORT, ..PATIENT }).await;
    let mut stuck = send(&server, "GET /held HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.entered.recv().await.unwrap();
    server.stop.cancel();
    server.running.await.unwrap();
    assert_eq!(until_closed(&mut stuck).await, "");
}
