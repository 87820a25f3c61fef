//! Fuzz properties of queries and request ids.

use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::params::{Pairs, instant, seconds};
use crate::fuzzing::{Target, text};
use crate::request_id::{RequestId, X_REQUEST_ID};

/// Parses a query as a handler receives it.
pub(crate) fn pairs(query: &str) -> Option<Pairs> {
    let uri = format!("/?{query}").parse::<Uri>().ok()?;
    percent_decode_str(uri.query().unwrap_or_default()).decode_utf8().ok()?;
    Query::try_from_uri(&uri).ok().map(|Query(pairs)| Pairs(pairs))
}

pub(crate) const QUERY: Target = (
    "query",
    query,
    &[
        b"wait=5&at=2026-01-01T02:00:00+02:00",
        b"a=%C3%A4&b=%EF%BF%BD&c=%+1%2",
        b"a=%FF&&=%zz&a",
        b"a=%25%32%30+x",
        b"wait=%2B5",
    ],
);

/// A value has the replacement character only if the caller sent it; numbers and instants round-trip.
fn query(bytes: &[u8]) {
    const REPLACEMENT: char = '\u{fffd}';
    let Some(uri) = text(bytes).and_then(|text| format!("/?{text}").parse::<Uri>().ok()) else {
        return;
    };
    let meant = percent_decode_str(uri.query().unwrap_or_default()).decode_utf8();
    let Ok(Query(all)) = Query::<Vec<(String, String)>>::try_from_uri(&uri) else { return };
    let replaced =
        all.iter().any(|(name, value)| name.contains(REPLACEMENT) || value.contains(REPLACEMENT));
    match meant {
        Ok(meant) => assert_eq!(replaced, meant.contains(REPLACEMENT), "{uri}"),
        Err(_) => assert!(replaced, "{uri}"),
    }
    for (name, value) in all {
        if let Ok(wait) = seconds(&name, &value) {
            assert_eq!(
                value.trim_start_matches('0'),
                wait.as_secs().to_string().trim_start_matches('0')
            );
        }
        if let Ok(at) = instant(&name, &value) {
            assert_eq!(instant(&name, &at.to_string()).ok(), Some(at));
        }
    }
}

pub(crate) const REQUEST_ID: Target =
    ("request-id", request_id, &[b"abc-123", b"", b"a b", b"\xff", b"a\tb"]);

/// A request id is the caller's, or a new one without whitespace.
fn request_id(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let id = RequestId::of(&HeaderMap::from_iter([(X_REQUEST_ID, value)]));
    assert!(id.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    assert!((1..=128).contains(&id.as_str().len()), "{id}");
    let usable = (1..=128).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    assert_eq!(id.as_str().as_bytes() == bytes, usable, "{id}");
}
