//! Receivers that answer slowly, too much, nonsense or not at all hold a sender no longer than its timeout.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use super::{OK, Play, Receiver, nameless, post};
use crate::egress::{EgressResponse, RetryAfter, SendError};

async fn sent(play: Play, timeout: Duration) -> (Result<EgressResponse, SendError>, Receiver) {
    let receiver = Receiver::start(play).await;
    let mut request = post(format!("http://{}/", receiver.address));
    request.timeout = timeout;
    (nameless().send(request).await, receiver)
}

/// For what must not come in time.
const SHORT: Duration = Duration::from_millis(200);
/// For what must come, on a machine that is busy.
const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn receiver_that_says_nothing_is_given_up() {
    let (silent, _receiver) = sent(Play::Hold(Vec::new()), SHORT).await;
    assert_eq!(silent.unwrap_err(), SendError::TimedOut);
}

#[tokio::test]
async fn head_that_does_not_end_is_given_up() {
    let (slow, _receiver) = sent(Play::Hold(b"HTTP/1.1 200 OK\r\nx-slow: ".to_vec()), SHORT).await;
    assert_eq!(slow.unwrap_err(), SendError::TimedOut);
}

#[tokio::test]
async fn body_that_does_not_end_is_left_and_the_status_counts() {
    let head = b"HTTP/1.1 202 Accepted\r\ncontent-length: 1000\r\n\r\nthanks".to_vec();
    let (slow, _receiver) = sent(Play::Hold(head), Duration::from_secs(2)).await;
    let slow = slow.unwrap();
    assert_eq!((slow.status, &slow.body_prefix[..]), (StatusCode::ACCEPTED, &b"thanks"[..]));
}

#[tokio::test]
async fn body_that_is_cut_off_is_left_and_the_status_counts() {
    let head = b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nsorry".to_vec();
    let (cut, _receiver) = sent(Play::EgressResponse(head), LONG).await;
    let cut = cut.unwrap();
    assert_eq!((cut.status.as_u16(), &cut.body_prefix[..]), (500, &b"sorry"[..]));
}

#[tokio::test]
async fn endless_body_is_cut_off_and_its_beginning_kept() {
    let (flood, mut receiver) = sent(Play::Flood, LONG).await;
    assert_eq!(flood.unwrap().body_prefix, vec![b'x'; 1024]);
    receiver.request().await;
    assert_eq!(receiver.request().await, "cut off");
}

#[tokio::test]
async fn as_much_of_a_body_is_kept_as_was_asked_for() {
    let receiver = Receiver::start(Play::Flood).await;
    for (asked, kept) in [(0, 0), (10, 10), (usize::MAX, 64 << 10)] {
        let mut request = post(format!("http://{}/", receiver.address));
        request.body_prefix_max = asked;
        assert_eq!(nameless().send(request).await.unwrap().body_prefix.len(), kept);
    }
}

#[tokio::test]
async fn reset_and_closed_connections_are_told() {
    let (reset, _receiver) = sent(Play::Reset, LONG).await;
    assert_eq!(reset.unwrap_err(), SendError::Reset);
    let (closed, _receiver) = sent(Play::EgressResponse(Vec::new()), LONG).await;
    assert_eq!(closed.unwrap_err(), SendError::Reset);
}

#[tokio::test]
async fn nonsense_is_told() {
    let (nonsense, _receiver) =
        sent(Play::EgressResponse(b"SSH-2.0-OpenSSH_9\r\n".to_vec()), LONG).await;
    let error = nonsense.unwrap_err();
    assert_eq!(error.code(), "protocol", "{error}");
}

#[tokio::test]
async fn compressed_body_stays_as_it_came() {
    let answer =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x08";
    let (packed, mut receiver) = sent(Play::EgressResponse(answer.to_vec()), LONG).await;
    assert_eq!(&packed.unwrap().body_prefix[..], b"\x1f\x8b\x08");
    assert!(!receiver.request().await.contains("accept-encoding"));
}

#[tokio::test]
async fn answer_shows_nothing_of_what_the_receiver_wrote() {
    let (answer, _receiver) = sent(Play::EgressResponse(OK.to_vec()), LONG).await;
    let shown = format!("{:?}", answer.unwrap());
    assert!(shown.starts_with("EgressResponse { status: 200, retry_after: None"), "{shown}");
    assert!(!shown.contains("ok"), "{shown}");
}

#[test]
fn retry_after_is_seconds_or_a_date() {
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
