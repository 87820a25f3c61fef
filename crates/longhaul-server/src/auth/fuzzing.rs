//! Properties of the API key and bearer token parsers.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};

use super::api_key::{ALPHABET, ID_CHARS, ParsedKey, SECRET_CHARS, checksum};
use super::middleware::credential_text;
use crate::fuzzing::{Target, text};

pub(crate) const API_KEY: Target = (
    "api-key",
    api_key,
    &[
        b"lh_0123456789abcdef_0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefghjk_00000000",
        b"lh__",
        b"lh_0123456789abcdef_x_ffffffff",
    ],
);

/// A key has one spelling, and any changed character invalidates it.
fn api_key(bytes: &[u8]) {
    if let Some(text) = text(bytes)
        && let Some(key) = ParsedKey::parse(text)
    {
        assert_eq!(format!("{}_{}", key.body, checksum(key.body)), text);
        assert!(key.body.starts_with(&format!("lh_{}_", key.id)), "{text:?}");
    }
    let letter =
        |byte: &u8| char::from(ALPHABET.get(usize::from(byte % 32)).copied().unwrap_or(b'0'));
    let letters: String =
        bytes.iter().chain(&[0; 68]).take(ID_CHARS + SECRET_CHARS).map(letter).collect();
    let (id, secret) = letters.split_at(ID_CHARS);
    let body = format!("lh_{id}_{secret}");
    let made = format!("{body}_{}", checksum(&body));
    assert_eq!(ParsedKey::parse(&made).map(|key| key.id), Some(id), "{made}");
    let mut changed = made.into_bytes();
    let place = usize::from(bytes.first().copied().unwrap_or(0)) % changed.len();
    if let Some(byte) = changed.get_mut(place) {
        *byte ^= 1;
    }
    assert!(text(&changed).and_then(ParsedKey::parse).is_none(), "{changed:?}");
}

pub(crate) const BEARER: Target = (
    "bearer",
    bearer,
    &[b"Bearer lh_x", b"bearer  a b ", b"Basic eDp5", b"Bearer", b" ", b"Bearer \xff"],
);

/// The credential of a bearer token is the trimmed text behind the scheme.
fn bearer(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    let is_basic = bytes.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    if let (Ok(key), false) = (credential_text(&headers), is_basic) {
        let key = key.unwrap_or_default();
        assert_eq!(key, key.trim());
        let plain =
            HeaderValue::from_str(&format!("Bearer {key}")).unwrap_or(HeaderValue::from_static(""));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, plain)]);
        assert_eq!(credential_text(&headers).ok(), Some(Some(key)));
    }
}
