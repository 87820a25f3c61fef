//! Tokens that an `OpenID` Connect issuer vouches for: JWTs, signed with keys that it publishes.
//!
//! Signatures are verified with `ring`, which is in the binary for TLS anyway, in some eighty lines
//! ([`jwk`], [`jws`]). We looked at the crate `jsonwebtoken` 11 first. Its built-in providers bring `rsa`,
//! which has an open timing advisory, or aws-lc, which needs a C toolchain; with a provider of our own the
//! verifying would be ours all the same, installed in a global that panics when it is missing, and the
//! checks of time, which it makes by the system's clock, would have to be made again by ours.

mod claims;
mod fetch;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod jwk;
mod jws;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};

pub(crate) use claims::Claims;
use fetch::Source;
pub(crate) use fetch::parse_url;
use jwk::{Found, KeySet};
use jws::{TOKEN_BYTES_MAX, Unverified};
use keys::Keys;

/// Tokens that are remembered.
const REMEMBERED_MAX: u64 = 10_000;
/// How long a token is believed without looking at its signature again.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Whose tokens are believed, and what is read in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Who makes the tokens: an address.
    pub issuer: String,
    /// Whom they must be made for.
    pub audience: String,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists scopes.
    pub scope_claim: String,
    /// What scopes of ours begin with there.
    pub scope_prefix: String,
    /// Where the issuer's keys are. None: where the issuer says.
    pub jwks_url: Option<String>,
}

/// What is wrong with a token. Told to whoever presented it, so it never quotes the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum TokenError {
    #[error("the token is larger than {TOKEN_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the token is not a signed JWT")]
    Malformed,
    #[error("the token's header has critical extensions, and none is understood here")]
    Extension,
    #[error(
        "the token's algorithm is not taken here: it must be RS256, RS384, RS512, PS256, ES256, \
         ES384 or EdDSA"
    )]
    Algorithm,
    #[error("the issuer has no key of the id that the token names")]
    UnknownKey,
    #[error("the token's algorithm is not that of the key that it names")]
    UnfitKey,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token has no {0:?}, or none that can be used")]
    Without(&'static str),
}

/// Why a token is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unjudged {
    /// It is bad.
    Bad(TokenError),
    /// Nobody can tell: the issuer's keys are not known.
    NoKeys,
}

impl From<TokenError> for Unjudged {
    fn from(error: TokenError) -> Self {
        Self::Bad(error)
    }
}

/// Judges tokens.
#[derive(Debug)]
pub struct Issuer {
    settings: OidcSettings,
    clock: Clock,
    keys: Keys,
    /// Verified tokens, by the hash of their text.
    remembered: Cache<[u8; 32], Arc<Remembered>>,
}

#[derive(Debug)]
struct Remembered {
    claims: Claims,
    /// Of the keys that verified it: after a change it is verified again.
    edition: u64,
    until: Timestamp,
}

impl Issuer {
    /// Asks nobody yet. An error means that HTTPS cannot be used on this machine.
    pub fn new(settings: OidcSettings, clock: Clock) -> Result<Self, String> {
        let keys = Keys::new(&settings, clock.clone())?;
        let remembered =
            Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(REMEMBERED).build();
        Ok(Self { settings, clock, keys, remembered })
    }

    /// Asks for the issuer's keys in the background, so that the first token need not wait.
    pub(super) fn prepare(&self) {
        self.keys.refresh();
    }

    pub(super) fn tenant_claim(&self) -> &str {
        &self.settings.tenant_claim
    }

    /// What a token says, if all of it can be believed.
    pub(super) async fn judge(&self, text: &str) -> Result<Claims, Unjudged> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        if let Some(claims) = self.recall(&hash) {
            return Ok(claims);
        }
        let token = Unverified::parse(text)?;
        let held = self.keys.with(token.key_id.as_deref(), token.algorithm).await?;
        let now = self.clock.now();
        let claims = self.verify(&token, &held.keys, now)?;
        let until = claims.expires_at.min(now.after(REMEMBERED));
        let remembered = Remembered { claims: claims.clone(), edition: held.edition, until };
        self.remembered.insert(hash, Arc::new(remembered));
        Ok(claims)
    }

    fn verify(
        &self,
        token: &Unverified<'_>,
        keys: &KeySet,
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        let payload = match keys.find(token.key_id.as_deref(), token.algorithm) {
            Found::Key(key) => token.payload(key)?,
            Found::Unfit => return Err(TokenError::UnfitKey),
            Found::Nothing => return Err(TokenError::UnknownKey),
        };
        Claims::read(&payload, &self.settings, now)
    }

    fn recall(&self, hash: &[u8; 32]) -> Option<Claims> {
        let remembered = self.remembered.get(hash)?;
        let held = self.keys.current()?;
        let is_good = remembered.edition == held.edition && self.clock.now() < remembered.until;
        is_good.then(|| remembered.claims.clone())
    }
}

/// Whether a bearer is a token of an issuer rather than a key of ours.
pub(super) fn is_token(text: &str) -> bool {
    !text.starts_with("lh_") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Fetches the issuer's keys and counts them, for `longhaul doctor`.
pub async fn examine_issuer(settings: &OidcSettings) -> Result<usize, String> {
    Ok(Source::new(settings)?.keys().await?.len())
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
