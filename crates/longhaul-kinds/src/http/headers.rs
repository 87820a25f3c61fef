//! Headers: hop-by-hop names and the stored form. Pure.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Hop-by-hop headers (RFC 9110, 7.6.1), besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that the HTTP client sets itself.
const SET_BY_CLIENT: [HeaderName; 3] = [HOST, CONTENT_LENGTH, EXPECT];

/// Name and value of a header. The bytes of the value are the characters U+0000 to U+00FF, because a value
/// need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderField(pub String, pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid header: its name or value contains characters that are not allowed")]
pub struct InvalidHeader;

/// Removes hop-by-hop headers, including those that `Connection` names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Removes the headers of a request that are specific to a connection or set by the HTTP client.
pub fn remove_connection_headers(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in SET_BY_CLIENT {
        headers.remove(name);
    }
}

/// Returns true for headers that are never forwarded.
pub fn is_connection_header(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || SET_BY_CLIENT.contains(name)
}

/// Converts headers to their stored form, in order.
pub fn to_fields(headers: &HeaderMap) -> Vec<HeaderField> {
    let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
    headers.iter().map(|(name, value)| HeaderField(name.as_str().to_owned(), text(value))).collect()
}

/// Converts the result of [`to_fields`] back.
pub fn from_fields(fields: &[HeaderField]) -> Result<HeaderMap, InvalidHeader> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for HeaderField(name, text) in fields {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| InvalidHeader)?;
        let bytes = text.chars().map(u8::try_from).collect::<Result<Vec<u8>, _>>();
        let value = HeaderValue::from_bytes(&bytes.map_err(|_| InvalidHeader)?);
        headers.append(name, value.map_err(|_| InvalidHeader)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let fields: Vec<HeaderField> = fields
            .iter()
            .map(|(name, value)| HeaderField((*name).into(), (*value).into()))
            .collect();
        from_fields(&fields).unwrap()
    }

    #[test]
    fn headers_named_by_connection_are_removed() {
        let mut given = headers(&[
            ("connection", "close, X-Mine"),
            ("connection", "keep-alive,x-yours , \"bad\""),
            ("x-mine", "1"),
            ("x-yours", "2"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            ("accept", "*/*"),
        ]);
        remove_hop_by_hop(&mut given);
        assert_eq!(to_fields(&given), [HeaderField("accept".into(), "*/*".into())]);
    }

    #[test]
    fn stored_headers_round_trip() {
        let mut given = HeaderMap::new();
        for bytes in [&b"plain"[..], b"", "schl\u{fc}ssel".as_bytes(), b"\xff\xfe", b"a\tb"] {
            given.append("x-odd", HeaderValue::from_bytes(bytes).unwrap());
        }
        let json = serde_json::to_string(&to_fields(&given)).unwrap();
        let back: Vec<HeaderField> = serde_json::from_str(&json).unwrap();
        assert_eq!(from_fields(&back).unwrap(), given);
    }

    #[test]
    fn invalid_headers_are_rejected() {
        for (name, value) in [("", "x"), ("a b", "x"), ("x", "a\r\nb"), ("x", "\0"), ("x", "€")] {
            let field = HeaderField(name.to_owned(), value.to_owned());
            assert_eq!(from_fields(&[field]), Err(InvalidHeader), "{name:?}: {value:?}");
        }
    }
}
