//! A token's text: three parts, the last one a signature over the others.

use serde::Deserialize;

use super::TokenError;
use super::jwk::{Algorithm, Key, decode};

/// Larger ones are refused unread. Those of big issuers have 2 KiB.
pub(super) const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A token that nobody has verified yet.
#[derive(Debug)]
pub(super) struct Unverified<'a> {
    pub(super) algorithm: Algorithm,
    /// The key that it says it was signed with.
    pub(super) key_id: Option<String>,
    message: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// What must be understood by whoever takes the token. We understand no extension.
    crit: Option<serde_json::Value>,
}

impl<'a> Unverified<'a> {
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
        let header: Header = serde_json::from_slice(&header).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Extension);
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or(TokenError::Algorithm)?;
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        Ok(Self { algorithm, key_id: header.kid, message, payload, signature })
    }

    /// What the token says, once it is sure that the key's owner said it.
    pub(super) fn payload(&self, key: &Key) -> Result<Vec<u8>, TokenError> {
        if !key.signed(self.algorithm, self.message.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        decode(self.payload).ok_or(TokenError::Malformed)
    }
}
