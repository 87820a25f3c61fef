//! JSON Web Signatures in compact form: header, payload and signature.

use serde::Deserialize;

use super::TokenError;
use super::jwk::{Algorithm, VerificationKey, decode};

/// Larger tokens are rejected unread. Those of large issuers have 2 KiB.
pub(super) const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct UnverifiedToken<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    message: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that a recipient must understand. None is supported.
    crit: Option<serde_json::Value>,
}

impl<'a> UnverifiedToken<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLarge);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
        if payload.contains('.') {
            return Err(TokenError::Malformed);
        }
        let header = decode(header).ok_or(TokenError::Malformed)?;
        let header: TokenHeader =
            serde_json::from_slice(&header).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::CriticalExtension);
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or(TokenError::Algorithm)?;
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        Ok(Self { algorithm, key_id: header.kid, message, payload, signature })
    }

    /// Verifies the signature and returns the payload.
    pub(super) fn verified_payload(&self, key: &VerificationKey) -> Result<Vec<u8>, TokenError> {
        if !key.verify(self.algorithm, self.message.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        decode(self.payload).ok_or(TokenError::Malformed)
    }
}
