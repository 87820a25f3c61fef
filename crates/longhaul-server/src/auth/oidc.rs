//! `OpenID` Connect tokens: JWTs signed with keys that the issuer publishes.
//!
//! Signatures are verified with `ring`, which TLS needs anyway, in about eighty lines ([`jwk`], [`jws`]). The
//! crate `jsonwebtoken` 11 is not used: its providers bring `rsa`, which has an open timing advisory, or aws-lc,
//! which needs a C toolchain; a custom provider is a global that panics when it is missing, and its time checks
//! use the system's clock instead of ours.

mod claims;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod issuer_client;
mod jwk;
mod jws;
mod key_cache;

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};

pub(crate) use claims::Claims;
use issuer_client::IssuerClient;
pub(crate) use issuer_client::parse_url;
use jwk::{KeyLookup, KeySet};
use jws::{TOKEN_BYTES_MAX, UnverifiedToken};
use key_cache::KeySetCache;

/// Verified tokens in the cache.
const VERIFIED_TOKENS_MAX: u64 = 10_000;
/// Time for which a verified token is accepted without checking its signature again.
const VERIFIED_FOR: Duration = Duration::from_mins(5);

/// Issuer whose tokens are accepted, and the claims that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// URL of the issuer; must equal the claim `iss`.
    pub issuer: String,
    /// Required value of the claim `aud`.
    pub audience: String,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists scopes.
    pub scope_claim: String,
    /// Prefix of Longhaul's scopes in the scope claim.
    pub scope_prefix: String,
    /// URL of the issuer's JWKS. Found by discovery if absent.
    pub jwks_url: Option<String>,
    /// Longest time that a token is accepted after it was issued.
    pub lifetime_max: Duration,
}

/// Defect of a token. Sent to the caller, so it never quotes the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum TokenError {
    #[error("the token is larger than {TOKEN_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the token is not a signed JWT")]
    Malformed,
    #[error("the token's header has critical extensions, which are not supported")]
    CriticalExtension,
    #[error(
        "the token's algorithm is not supported; use RS256, RS384, RS512, PS256, ES256, ES384 or \
         EdDSA"
    )]
    Algorithm,
    #[error("the issuer has no key with the token's key id")]
    UnknownKey,
    #[error("the token's algorithm does not match its key")]
    WrongAlgorithm,
    #[error("the token's signature is invalid")]
    Signature,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token was issued too long ago, whatever its expiry; request a new one")]
    TooOld,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token has no valid claim {0:?}")]
    MissingClaim(&'static str),
}

/// Failed verification of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenVerifyError {
    Bad(TokenError),
    /// The issuer's keys are not available.
    NoKeys,
}

impl From<TokenError> for TokenVerifyError {
    fn from(error: TokenError) -> Self {
        Self::Bad(error)
    }
}

/// Verifies the tokens of one issuer.
#[derive(Debug)]
pub struct Issuer {
    settings: OidcSettings,
    clock: Clock,
    keys: KeySetCache,
    /// By the hash of the token's text.
    verified: Cache<[u8; 32], Arc<VerifiedToken>>,
}

#[derive(Debug)]
struct VerifiedToken {
    claims: Claims,
    /// Edition of the key set that verified it. A newer edition invalidates the entry.
    edition: u64,
    until: Timestamp,
}

impl Issuer {
    /// Sends no request yet. Fails if the HTTPS client cannot be built on this machine.
    pub fn new(settings: OidcSettings, clock: Clock) -> Result<Self, String> {
        let keys = KeySetCache::new(&settings, clock.clone())?;
        let verified =
            Cache::builder().max_capacity(VERIFIED_TOKENS_MAX).time_to_live(VERIFIED_FOR).build();
        Ok(Self { settings, clock, keys, verified })
    }

    /// Fetches the issuer's keys in the background, so that the first token need not wait.
    pub(super) fn prefetch_keys(&self) {
        self.keys.refresh();
    }

    pub(super) fn tenant_claim(&self) -> &str {
        &self.settings.tenant_claim
    }

    /// Verifies a token and returns its claims.
    pub(super) async fn verify(&self, text: &str) -> Result<Claims, TokenVerifyError> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        if let Some(claims) = self.cached(&hash) {
            return Ok(claims);
        }
        let token = UnverifiedToken::parse(text)?;
        let key_set = self.keys.with(token.key_id.as_deref(), token.algorithm).await?;
        let now = self.clock.now();
        let claims = self.verify_with(&token, &key_set.keys, now)?;
        let until = claims.expires_at.min(now.after(VERIFIED_FOR));
        let verified = VerifiedToken { claims: claims.clone(), edition: key_set.edition, until };
        self.verified.insert(hash, Arc::new(verified));
        Ok(claims)
    }

    fn verify_with(
        &self,
        token: &UnverifiedToken<'_>,
        keys: &KeySet,
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        let payload = match keys.find(token.key_id.as_deref(), token.algorithm) {
            KeyLookup::Key(key) => token.verified_payload(key)?,
            KeyLookup::WrongAlgorithm => return Err(TokenError::WrongAlgorithm),
            KeyLookup::Missing => return Err(TokenError::UnknownKey),
        };
        Claims::read(&payload, &self.settings, now)
    }

    fn cached(&self, hash: &[u8; 32]) -> Option<Claims> {
        let verified = self.verified.get(hash)?;
        let key_set = self.keys.current()?;
        let is_current = verified.edition == key_set.edition && self.clock.now() < verified.until;
        is_current.then(|| verified.claims.clone())
    }
}

/// Returns whether a bearer token has the form of a JWT.
pub(super) fn is_token(text: &str) -> bool {
    !text.starts_with("lh_") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Fetches the issuer's keys and counts them, for `longhaul doctor`.
pub async fn check_issuer(settings: &OidcSettings) -> Result<usize, String> {
    Ok(IssuerClient::new(settings)?.keys().await?.len())
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
