//! Fuzz properties of the headers, queries and multipart bodies of job requests.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::artifacts::{RangeRequest, range};
use crate::api::http::fuzzing::pairs;
use crate::api::http::idempotency::{self, IDEMPOTENCY_KEY as KEY_NAME};
use crate::api::http::multipart::MultipartBody;
use crate::api::http::params::Pairs;
use crate::api::http::prefer::{PREFER as PREFER_NAME, Preference, preference};
use crate::fuzzing::{Target, line, text};
use crate::jobs::query::{cursor, parse_cursor, parse_query};
use crate::jobs::upload::PayloadHeaders;
use crate::problem::Code;

fn header(name: HeaderName, value: &[u8]) -> Option<HeaderMap> {
    Some(HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).ok()?)]))
}

pub(crate) const IDEMPOTENCY_KEY: Target = (
    "idempotency-key",
    idempotency_key,
    &[b"order-4711", br#""a\"b\\c""#, b"\"\"", b"two words", b"\"open", b" k ", br#""a";b=1"#],
);

/// A key is visible ASCII, and is the same key when it is sent in quotes.
fn idempotency_key(bytes: &[u8]) {
    let Some(headers) = header(KEY_NAME, bytes) else { return };
    let Ok(Some(key)) = idempotency::key(&headers, true) else { return };
    assert!((1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    let again = header(KEY_NAME, quoted.as_bytes())
        .and_then(|headers| idempotency::key(&headers, true).ok());
    assert_eq!(again.flatten(), Some(key), "{quoted}");
}

pub(crate) const PREFER: Target = (
    "prefer",
    prefer,
    &[
        b"wait=5, respond-async",
        b"Wait = \"7\"",
        b"wait=99999999999",
        b"wait=+5",
        b"respond-async;x, wait",
        b"wait=5,wait=9",
    ],
);

/// A wait never exceeds the maximum, and `Preference-Applied` round-trips.
fn prefer(bytes: &[u8]) {
    const MAX: Duration = Duration::from_mins(1);
    let read = |value: &[u8]| -> Option<Preference> {
        preference(&header(PREFER_NAME, value)?, Pairs::default(), MAX).ok()
    };
    let Some(found) = read(bytes) else { return };
    assert!(found.wait <= MAX);
    let Some(applied) = &found.applied else {
        assert_eq!(found.wait, Duration::ZERO);
        return;
    };
    assert!(found.to_header().is_some(), "{applied:?}");
    assert_eq!(read(applied.as_bytes()).as_ref(), Some(&found), "{applied:?}");
    assert!(text(bytes).is_none_or(|text| text.trim() != "wait=+5"), "a number has no sign");
}

pub(crate) const LIST: Target = (
    "list",
    list,
    &[
        b"status=failed,running&kind=demo&queue=q&label.a=b&limit=10&cursor=a01KA1B2C3D4E5F6G7H8J9KMNPQ",
        b"createdAfter=2026-01-01T02:00:00+02:00&status=pending",
        b"cursor=a8ZZZZZZZZZZZZZZZZZZZZZZZZZ&limit=1001",
        b"label.=x&label.%00=%00",
        b"limit=%2B7",
    ],
);

/// A page has a length within its limits, its cursor is read as it is given out, and a `Range` that is
/// understood lies within what there is.
fn list(bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        for size in [0, 10, u64::MAX] {
            if let RangeRequest::Part(part) = range(text, size) {
                assert!(part.start < part.end && part.end <= size, "{text:?} of {size}: {part:?}");
                assert!(!text.contains('+'), "{text:?}: a number has no sign");
            }
        }
    }
    let Some(query) = text(bytes).and_then(pairs) else { return };
    let given = query.0.clone();
    let Ok(asked) = parse_query(query, 1_000) else { return };
    assert!((1..=1_000).contains(&asked.page.limit));
    let limit = given.iter().find(|(name, _)| name == "limit").map(|(_, value)| value);
    assert!(limit.is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit())), "{given:?}");
    if let Some(before) = asked.page.before {
        assert_eq!(parse_cursor(&cursor(before)).ok(), Some(before));
        assert!(
            given.iter().any(|(_, value)| value.eq_ignore_ascii_case(&cursor(before))),
            "{given:?}"
        );
    }
    assert!(asked.filter.labels.keys().all(|label| !label.is_empty()), "{given:?}");
}

/// Kind, payload name and payload of a multipart body, or the problem.
type MultipartResult = Result<(String, Option<(Option<String>, Vec<u8>)>), Code>;

/// Reads a body that comes in pieces of this size. None: it has no type.
fn read(content_type: &[u8], body: &[u8], size: usize) -> Option<MultipartResult> {
    let headers = header(CONTENT_TYPE, content_type)?;
    let pieces: Vec<_> = body.chunks(size.max(1)).map(Bytes::copy_from_slice).collect();
    let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)));
    async {
        let whole = PayloadHeaders::parse(&headers, &body).map_err(|problem| problem.code())?;
        let mut parts = MultipartBody::of(&headers, body).map_err(|problem| problem.code())?;
        let job = parts.job(10_000).await.map_err(|problem| problem.code())?;
        let Some(part) = parts.payload(&whole).await.map_err(|problem| problem.code())? else {
            return Ok((job.kind, None));
        };
        let (name, mut bytes) = (part.name.clone(), Vec::new());
        let mut pieces = std::pin::pin!(part.chunks());
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece.map_err(|problem| problem.code())?);
        }
        Ok((job.kind, Some((name, bytes))))
    }
    .now_or_never()
}

pub(crate) const MULTIPART: Target = (
    "multipart",
    multipart,
    &[
        b"\x07multipart/form-data; boundary=xx\n--xx\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{\"kind\":\"demo\",\"input\":1}\r\n--xx\r\ncontent-disposition: form-data; name=\"payload\"; filename=\"a.bin\"\r\ncontent-type: a/b\r\n\r\nxyz\r\n--xx--\r\n",
        b"\x01multipart/form-data; boundary=\"a b\"\n--a b\r\ncontent-disposition: form-data; name=job\r\n\r\n{}\r\n--a b--",
        b"\x30Multipart/Form-Data;boundary=x\n--x\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n\r\n--x--",
        b"\x02multipart/form-data\n--",
    ],
);

/// A body is parsed alike however it is split into chunks.
fn multipart(bytes: &[u8]) {
    let Some((size, rest)) = bytes.split_first() else { return };
    let (content_type, body) = line(rest);
    let whole = read(content_type, body, usize::MAX);
    let cut = read(content_type, body, usize::from(*size));
    assert_eq!(cut, whole, "in pieces of {size}");
}

pub(crate) const PAYLOAD_PART: Target = (
    "payload-part",
    payload_part,
    &[b"\x05hello", b"\x01\r\n--", b"\x02--y\r\n--yy", b"\x09\r\n--yyy--\r\n\r\n"],
);

/// A payload arrives as it was sent, however much it looks like the end of its part.
fn payload_part(bytes: &[u8]) {
    const BOUNDARY: &str = "yyyyyyyyyyyyyyyy";
    let Some((size, payload)) = bytes.split_first() else { return };
    if payload.windows(BOUNDARY.len()).any(|part| part == BOUNDARY.as_bytes()) {
        return;
    }
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{{\"kind\":\"demo\",\"input\":1}}\r\n\
         --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"payload\"\r\n\r\n"
    );
    let body = [head.as_bytes(), payload, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let read = read(content_type.as_bytes(), &body, usize::from(*size));
    assert_eq!(read, Some(Ok(("demo".to_owned(), Some((None, payload.to_vec()))))));
}
