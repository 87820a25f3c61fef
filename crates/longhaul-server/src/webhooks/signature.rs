//! Standard Webhooks signatures: `v1,<base64>`, several while a secret is rotated.
//!
//! See <https://www.standardwebhooks.com>.

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

/// Message id, the same for all attempts.
pub const ID: HeaderName = HeaderName::from_static("webhook-id");
/// Time of the signature, in seconds since 1970.
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// Signatures of id, time and body.
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

const PREFIX: &str = "whsec_";
/// Size of a secret as the standard requires.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;
const FRESH_SECRET_BYTES: usize = 32;
const ID_BYTES_MAX: usize = 255;

/// Accepts secrets without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A signing secret, `whsec_…`. Hidden in debug output and zeroized on drop of the last clone.
#[derive(Clone)]
pub struct SigningSecret(Arc<Zeroizing<Vec<u8>>>);

/// Parse error of a signing secret. Contains nothing of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("a signing secret must begin with {PREFIX}")]
    Prefix,
    #[error("a signing secret must be base64 after {PREFIX}")]
    Base64,
    #[error("a signing secret must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, not {0}")]
    Length(usize),
}

/// An id that cannot be signed. Ids must not contain a dot, because it separates the signed parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message id must have 1 to {ID_BYTES_MAX} visible ASCII characters and no dot")]
pub struct BadId;

/// Verification error of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("missing or invalid header {0}")]
    Malformed(&'static str),
    #[error("the signature is older than five minutes or from the future")]
    Stale,
    #[error("the signature does not match the secret")]
    Forged,
}

impl SigningSecret {
    /// Generates a random secret.
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new(vec![0; FRESH_SECRET_BYTES]);
        rand::rng().fill_bytes(&mut bytes);
        Self(Arc::new(bytes))
    }

    pub(super) fn of(bytes: [u8; FRESH_SECRET_BYTES]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes.to_vec())))
    }

    /// Returns the text form.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(PREFIX.to_owned());
        // Reserved at once, because growing would leave an unzeroized copy.
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

/// Returns the headers of a delivery, signed with each secret.
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

/// Verifies that a signature matches one of the secrets and is at most five minutes old.
pub fn verify(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<(), VerifyError> {
    let id = field(headers, &ID).ok_or(VerifyError::Malformed("webhook-id"))?;
    let time = field(headers, &TIMESTAMP).ok_or(VerifyError::Malformed("webhook-timestamp"))?;
    let seconds = time.parse::<i64>().map_err(|_| VerifyError::Malformed("webhook-timestamp"))?;
    let signatures: Vec<Vec<u8>> = field(headers, &SIGNATURE)
        .unwrap_or_default()
        .split(' ')
        .filter_map(|signature| BASE64.decode(signature.strip_prefix("v1,")?).ok())
        .take(hmac_signature::SIGNATURES_MAX)
        .collect();
    if signatures.is_empty() {
        return Err(VerifyError::Malformed("webhook-signature"));
    }
    let parts = [id.as_bytes(), time.as_bytes(), body];
    let is_by = |secret: &SigningSecret| {
        hmac_signature::is_among(&hmac_signature::sign(&secret.0, &parts), &signatures)
    };
    if !secrets.iter().any(is_by) {
        Err(VerifyError::Forged)
    } else if hmac_signature::is_fresh(seconds, now) {
        Ok(())
    } else {
        Err(VerifyError::Stale)
    }
}

fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
