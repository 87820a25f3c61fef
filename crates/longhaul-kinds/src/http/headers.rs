//! Header fields: which of them belong to one connection, and how they are to_fields down. Pure.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What is between two neighbours and no others (RFC 9110, 7.6.1), besides what `Connection` names.
const HOPS: [HeaderName; 9] = [
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

/// What the HTTP client says by itself.
const CLIENTS_OWN: [HeaderName; 3] = [HOST, CONTENT_LENGTH, EXPECT];

/// A field by its name and value. A value's bytes are the characters U+0000 to U+00FF, since not all that is
/// allowed there is UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderField(pub String, pub String);

/// What is no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is a header that cannot be sent: its name or its value has characters that are not allowed"
)]
pub struct InvalidHeader;

/// Takes out what belongs to one connection: the known fields, and those that `Connection` names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named.iter().chain(&HOPS) {
        headers.remove(name);
    }
}

/// Takes out of a request what is said anew by whoever sends it on.
pub fn remove_connection_headers(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in CLIENTS_OWN {
        headers.remove(name);
    }
}

/// Whether a field is never sent on, whatever `Connection` names.
pub fn is_connection_header(name: &HeaderName) -> bool {
    HOPS.contains(name) || CLIENTS_OWN.contains(name)
}

/// Writes fields down, in their order.
pub fn to_fields(headers: &HeaderMap) -> Vec<HeaderField> {
    let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
    headers.iter().map(|(name, value)| HeaderField(name.as_str().to_owned(), text(value))).collect()
}

/// Reads what was [`to_fields`].
pub fn read(fields: &[HeaderField]) -> Result<HeaderMap, InvalidHeader> {
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
        read(&fields).unwrap()
    }

    #[test]
    fn what_connection_names_goes_with_it() {
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
    fn every_value_comes_back_as_it_was() {
        let mut given = HeaderMap::new();
        for bytes in [&b"plain"[..], b"", "schl\u{fc}ssel".as_bytes(), b"\xff\xfe", b"a\tb"] {
            given.append("x-odd", HeaderValue::from_bytes(bytes).unwrap());
        }
        let json = serde_json::to_string(&to_fields(&given)).unwrap();
        let back: Vec<HeaderField> = serde_json::from_str(&json).unwrap();
        assert_eq!(read(&back).unwrap(), given);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for (name, value) in [("", "x"), ("a b", "x"), ("x", "a\r\nb"), ("x", "\0"), ("x", "€")] {
            let field = HeaderField(name.to_owned(), value.to_owned());
            assert_eq!(read(&[field]), Err(InvalidHeader), "{name:?}: {value:?}");
        }
    }
}
