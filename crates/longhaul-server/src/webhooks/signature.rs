//! Signatures as the Standard Webhooks have them: `v1,<base64>`, of which several may be there while a secret
//! is rotated. See <https://www.standardwebhooks.com>.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use longhaul::Timestamp;
use rand::Rng as _;
use zeroize::Zeroizing;

use crate::hmac_signature;

/// The delivery's id: the same however often it is tried.
pub const ID: HeaderName = HeaderName::from_static("webhook-id");
/// When this attempt was signed, in seconds since 1970.
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// What the secrets make of both and the body.
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the standard says.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;
const FRESH_SECRET_BYTES: usize = 32;
const ID_BYTES_MAX: usize = 255;

/// Secrets come from many hands, and some leave the `=` at the end out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A signing secret, `whsec_…`. It shows none of itself, and is overwritten when the last of its clones goes.
#[derive(Clone)]
pub struct SigningSecret(Arc<Zeroizing<Vec<u8>>>);

/// Why a text is no signing secret. It has nothing of the text in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It does not begin with `whsec_`.
    #[error("a signing secret begins with {PREFIX}")]
    Prefix,
    /// What follows is no base64.
    #[error("behind {PREFIX} a signing secret is base64")]
    Base64,
    /// Too short to be safe, or longer than receivers take.
    #[error(
        "a signing secret is {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, not {0} bytes"
    )]
    Length(usize),
}

/// An id that cannot be signed: 1 to 255 letters, digits and signs of ASCII, and no dot, which would let it
/// pass for an id and a part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a delivery's id is 1 to {ID_BYTES_MAX} visible characters of ASCII without a dot")]
pub struct BadId;

/// Why a delivery is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// A field is not there, or not as it should be.
    #[error("it has no {0} as the Standard Webhooks have it")]
    Malformed(&'static str),
    /// It was signed too long ago, or by a clock that is ahead.
    #[error("it was not signed in the last five minutes")]
    Stale,
    /// Nobody with the secret signed it.
    #[error("it was not signed with this secret")]
    Forged,
}

impl SigningSecret {
    /// A fresh one.
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new(vec![0; FRESH_SECRET_BYTES]);
        rand::rng().fill_bytes(&mut bytes);
        Self(Arc::new(bytes))
    }

    /// One that follows from something else.
    pub(super) fn of(bytes: [u8; FRESH_SECRET_BYTES]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes.to_vec())))
    }

    /// The text, for its owner and for where it is sealed.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(PREFIX.to_owned());
        // Room for all of it: growing would leave a copy behind.
        text.reserve_exact(self.0.len().div_ceil(3) * 4);
        BASE64.encode_string(self.0.as_slice(), &mut text);
        text
    }
}

impl FromStr for SigningSecret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(BadSecret::Prefix)?;
        let bytes = Zeroizing::new(BASE64.decode(encoded).map_err(|_| BadSecret::Base64)?);
        if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(Arc::new(bytes)))
        } else {
            Err(BadSecret::Length(bytes.len()))
        }
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsec_***")
    }
}

/// The three fields of a delivery that is signed now, once with each secret.
pub fn headers(
    id: &str,
    now: Timestamp,
    body: &[u8],
    secrets: &[SigningSecret],
) -> Result<[(HeaderName, HeaderValue); 3], BadId> {
    let fits = (1..=ID_BYTES_MAX).contains(&id.len());
    if !fits || id.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'.') {
        return Err(BadId);
    }
    let time = now.as_millis().div_euclid(1_000).to_string();
    let signatures: Vec<String> = secrets
        .iter()
        .map(|secret| {
            let tag = hmac_signature::sign(&secret.0, &[id.as_bytes(), time.as_bytes(), body]);
            format!("v1,{}", BASE64.encode(tag))
        })
        .collect();
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| BadId);
    Ok([(ID, value(id)?), (TIMESTAMP, value(&time)?), (SIGNATURE, value(&signatures.join(" "))?)])
}

/// Checks that one of the signatures is of this delivery, by one of the secrets, and fresh.
pub fn verify(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<(), Doubt> {
    let id = field(headers, &ID).ok_or(Doubt::Malformed("webhook-id"))?;
    let time = field(headers, &TIMESTAMP).ok_or(Doubt::Malformed("webhook-timestamp"))?;
    let seconds = time.parse::<i64>().map_err(|_| Doubt::Malformed("webhook-timestamp"))?;
    let signatures: Vec<Vec<u8>> = field(headers, &SIGNATURE)
        .unwrap_or_default()
        .split(' ')
        .filter_map(|signature| BASE64.decode(signature.strip_prefix("v1,")?).ok())
        .take(hmac_signature::SIGNATURES_MAX)
        .collect();
    if signatures.is_empty() {
        return Err(Doubt::Malformed("webhook-signature"));
    }
    let parts = [id.as_bytes(), time.as_bytes(), body];
    let is_by = |secret: &SigningSecret| {
        hmac_signature::is_among(&hmac_signature::sign(&secret.0, &parts), &signatures)
    };
    if !secrets.iter().any(is_by) {
        Err(Doubt::Forged)
    } else if hmac_signature::is_fresh(seconds, now) {
        Ok(())
    } else {
        Err(Doubt::Stale)
    }
}

fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
