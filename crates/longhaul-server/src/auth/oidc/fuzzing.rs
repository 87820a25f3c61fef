//! Properties of the parsers of tokens, claims and keys.

use std::time::Duration;

use longhaul::Timestamp;
use longhaul::store::accounts::Scopes;

use super::claims::Claims;
use super::jwk::{Algorithm, KeyLookup, KeySet, decode};
use super::jws::{TOKEN_BYTES_MAX, UnverifiedToken};
use super::{OidcSettings, TokenError, parse_url};
use crate::fuzzing::{Target, text};

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::EdDsa,
];

/// A public key whose private key does not exist any more.
const PUBLISHED: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

pub(crate) const JWS: Target = (
    "jws",
    jws,
    &[
        b"eyJhbGciOiJFZERTQSIsImtpZCI6Im9uZSJ9.eyJpc3MiOiJhIn0.AAAA",
        b"eyJhbGciOiJub25lIn0.e30.",
        b"eyJhbGciOiJSUzI1NiIsImNyaXQiOlsiYiJdfQ.e30.AA",
        b"eyJhbGciOiJFZDI1NTE5In0..",
        b"a.b.c.d",
    ],
);

/// A parsed token has three parts and a supported algorithm, and its payload is never returned without a valid
/// signature.
fn jws(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(token) = UnverifiedToken::parse(text) else { return };
    assert!(text.len() <= TOKEN_BYTES_MAX && text.matches('.').count() == 2, "{text:?}");
    let header = text.split('.').next().and_then(decode).unwrap_or_default();
    let header: serde_json::Value = serde_json::from_slice(&header).unwrap_or_default();
    let named = header.get("alg").and_then(serde_json::Value::as_str).and_then(Algorithm::parse);
    assert_eq!(named, Some(token.algorithm), "{header}");
    assert!(header.get("crit").is_none_or(serde_json::Value::is_null), "{header}");
    let Ok(keys) = KeySet::parse(PUBLISHED) else { return };
    if let KeyLookup::Key(key) = keys.find(None, token.algorithm) {
        assert_eq!(token.verified_payload(key).err(), Some(TokenError::Signature), "{text:?}");
    }
}

pub(crate) const CLAIMS: Target = (
    "claims",
    claims,
    &[
        br#"{"iss":"https://i","aud":"jobs","sub":"ann","exp":1763003600,"tenant":"t","scope":"a lh:read"}"#,
        br#"{"iss":"https://i","aud":["x","jobs"],"sub":"ann","exp":1e300,"nbf":0.5,"scope":["lh:submit"]}"#,
        br#"{"iss":"https://i","aud":"jobs","sub":"a\u0000","exp":9223372036854775807,"iat":-1}"#,
        br#"{"iss":"https://i","aud":"jobs","sub":"","exp":"soon"}"#,
    ],
);

/// Accepted claims name the issuer, the audience, a current validity, and a subject that fits the audit log.
fn claims(bytes: &[u8]) {
    let settings = OidcSettings {
        issuer: "https://i".to_owned(),
        audience: "jobs".to_owned(),
        tenant_claim: "tenant".to_owned(),
        scope_claim: "scope".to_owned(),
        scope_prefix: "lh:".to_owned(),
        jwks_url: None,
        lifetime_max: Duration::from_hours(24),
    };
    let now = Timestamp::from_millis(1_763_000_000_000);
    let Ok(believed) = Claims::read(bytes, &settings, now) else { return };
    let said: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    assert_eq!(said.get("iss").and_then(serde_json::Value::as_str), Some("https://i"));
    assert!(said.get("aud").is_some_and(|aud| aud.to_string().contains(r#""jobs""#)), "{said}");
    assert!((1..=255).contains(&believed.subject.len()), "{believed:?}");
    assert!(!believed.subject.contains(char::is_control), "{believed:?}");
    assert!(believed.scopes == Scopes::default() || said.to_string().contains("lh:"), "{said}");
    let end = Timestamp::from_millis(believed.expires_at.as_millis().saturating_add(60_000));
    if end <= Timestamp::MAX {
        let late = Claims::read(bytes, &settings, end);
        assert_eq!(late.err(), Some(TokenError::Expired), "{said} at {end}");
    }
}

pub(crate) const JWKS: Target = (
    "jwks",
    jwks,
    &[
        PUBLISHED,
        br#"{"keys":[{"kty":"RSA","kid":"a","alg":"RS256","use":"sig","n":"AAEBAQ","e":"AQAB"},{"kty":"oct"}]}"#,
        br#"{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","key_ops":["verify"]}]}"#,
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"","kid":null},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"none"}]}"#,
    ],
);

/// A parsed key set is not empty, and a key found for an algorithm supports it.
fn jwks(bytes: &[u8]) {
    let Ok(keys) = KeySet::parse(bytes) else { return };
    assert!(keys.len() > 0);
    for algorithm in ALGORITHMS {
        if let KeyLookup::Key(key) = keys.find(None, algorithm) {
            let others = ALGORITHMS.into_iter().filter(|other| *other != algorithm);
            let signed = others.filter(|other| key.verify(*other, b"a", bytes)).count();
            assert_eq!(signed, 0);
            key.verify(algorithm, bytes, bytes);
        }
    }
    assert_eq!(KeySet::parse(bytes), Ok(keys));
}

pub(crate) const ISSUER_URL: Target = (
    "issuer-url",
    issuer_url,
    &[
        b"https://issuer.example/a",
        b"http://127.0.0.1:8080/",
        b"http://localhost@evil",
        b"http://[::1]",
        b"http://[::ffff:127.0.0.1]/#x",
    ],
);

/// Accepted URLs use TLS or loopback.
fn issuer_url(bytes: &[u8]) {
    let Some(Ok(url)) = text(bytes).map(parse_url) else { return };
    let here = matches!(url.host_str(), Some("localhost"))
        || url.host_str().is_some_and(|host| host.starts_with("127.") || host.starts_with("[::"));
    assert!(url.scheme() == "https" || here, "{url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    assert_eq!(parse_url(url.as_str()).as_ref(), Ok(&url));
}
