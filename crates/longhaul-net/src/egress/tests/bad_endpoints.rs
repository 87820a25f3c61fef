//! Endpoints that respond slowly, too long, invalidly or not at all.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use super::{Behaviour, OK, TestEndpoint, client_without_names, post};
use crate::egress::{EgressResponse, RetryAfter, SendError};

async fn sent(
    behaviour: Behaviour,
    timeout: Duration,
) -> (Result<EgressResponse, SendError>, TestEndpoint) {
    let endpoint = TestEndpoint::start(behaviour).await;
    let mut request = post(format!("http://{}/", endpoint.address));
    request.timeout = timeout;
    (client_without_names().send(request).await, endpoint)
}

/// For responses that must time out.
const SHORT: Duration = Duration::from_millis(200);
/// For responses that must arrive, on a busy machine.
const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn silent_endpoint_times_out() {
    let (silent, _receiver) = sent(Behaviour::Hold(Vec::new()), SHORT).await;
    assert_eq!(silent.unwrap_err(), SendError::TimedOut);
}

#[tokio::test]
async fn unfinished_response_headers_time_out() {
    let (slow, _receiver) =
        sent(Behaviour::Hold(b"HTTP/1.1 200 OK\r\nx-slow: ".to_vec()), SHORT).await;
    assert_eq!(slow.unwrap_err(), SendError::TimedOut);
}

#[tokio::test]
async fn unfinished_body_still_returns_the_status() {
    let head = b"HTTP/1.1 202 Accepted\r\ncontent-length: 1000\r\n\r\nthanks".to_vec();
    let (slow, _receiver) = sent(Behaviour::Hold(head), Duration::from_secs(2)).await;
    let slow = slow.unwrap();
    assert_eq!((slow.status, &slow.body_prefix[..]), (StatusCode::ACCEPTED, &b"thanks"[..]));
}

#[tokio::test]
async fn interrupted_body_still_returns_the_status() {
    let head = b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nsorry".to_vec();
    let (cut, _receiver) = sent(Behaviour::Respond(head), LONG).await;
    let cut = cut.unwrap();
    assert_eq!((cut.status.as_u16(), &cut.body_prefix[..]), (500, &b"sorry"[..]));
}

#[tokio::test]
async fn endless_body_is_truncated() {
    let (flood, mut endpoint) = sent(Behaviour::Flood, LONG).await;
    assert_eq!(flood.unwrap().body_prefix, vec![b'x'; 1024]);
    endpoint.request().await;
    assert_eq!(endpoint.request().await, "cut off");
}

#[tokio::test]
async fn body_prefix_has_the_requested_length() {
    let endpoint = TestEndpoint::start(Behaviour::Flood).await;
    for (asked, kept) in [(0, 0), (10, 10), (usize::MAX, 64 << 10)] {
        let mut request = post(format!("http://{}/", endpoint.address));
        request.body_prefix_max = asked;
        assert_eq!(client_without_names().send(request).await.unwrap().body_prefix.len(), kept);
    }
}

#[tokio::test]
async fn reset_and_closed_connections_are_reported() {
    let (reset, _receiver) = sent(Behaviour::Reset, LONG).await;
    assert_eq!(reset.unwrap_err(), SendError::Reset);
    let (closed, _receiver) = sent(Behaviour::Respond(Vec::new()), LONG).await;
    assert_eq!(closed.unwrap_err(), SendError::Reset);
}

#[tokio::test]
async fn invalid_http_is_reported() {
    let (nonsense, _receiver) =
        sent(Behaviour::Respond(b"SSH-2.0-OpenSSH_9\r\n".to_vec()), LONG).await;
    let error = nonsense.unwrap_err();
    assert_eq!(error.code(), "protocol", "{error}");
}

#[tokio::test]
async fn compressed_body_is_not_decompressed() {
    let answer =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x08";
    let (packed, mut endpoint) = sent(Behaviour::Respond(answer.to_vec()), LONG).await;
    assert_eq!(&packed.unwrap().body_prefix[..], b"\x1f\x8b\x08");
    assert!(!endpoint.request().await.contains("accept-encoding"));
}

#[tokio::test]
async fn debug_output_of_a_response_hides_its_content() {
    let (answer, _receiver) = sent(Behaviour::Respond(OK.to_vec()), LONG).await;
    let shown = format!("{:?}", answer.unwrap());
    assert!(shown.starts_with("EgressResponse { status: 200, retry_after: None"), "{shown}");
    assert!(!shown.contains("ok"), "{shown}");
}

#[test]
fn retry_after_header_is_seconds_or_a_date() {
    let of = |text: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static(text));
        RetryAfter::from_headers(&headers)
    };
    assert_eq!(of("120"), Some(RetryAfter::Delay(Duration::from_mins(2))));
    let at = httpdate::parse_http_date("Sun, 15 Nov 2026 08:00:30 GMT").unwrap();
    assert_eq!(of("Sun, 15 Nov 2026 08:00:30 GMT"), Some(RetryAfter::At(at)));
    let now = at - Duration::from_secs(30);
    assert_eq!(RetryAfter::At(at).delay(now), Duration::from_secs(30));
    assert_eq!(RetryAfter::At(now).delay(at), Duration::ZERO);
    for nonsense in ["", "soon", "-5", "1.5", "99999999999999999999", "Sun, 99 Nov 2026"] {
        assert_eq!(of(nonsense), None, "{nonsense}");
    }
    assert_eq!(RetryAfter::from_headers(&HeaderMap::new()), None);
}
