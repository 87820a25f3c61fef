//! Claims of a token: issuer, audience, validity, subject, tenant and scopes.

use std::time::Duration;

use longhaul::store::accounts::{Scope, Scopes};
use longhaul::{TenantId, Timestamp};
use serde_json::{Map, Value};

use super::{OidcSettings, TokenError};

/// Tolerated difference between the issuer's clock and ours.
const LEEWAY: Duration = Duration::from_mins(1);
/// Limit of `OpenID` Connect; the subject is written to the audit log.
const SUBJECT_BYTES_MAX: usize = 255;

/// Verified claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) subject: String,
    /// `None` if the claim is missing or no valid tenant id.
    pub(crate) tenant: Option<TenantId>,
    pub(crate) scopes: Scopes,
    /// At most [`OidcSettings::lifetime_max`] after the token was issued.
    pub(super) expires_at: Timestamp,
}

impl Claims {
    pub(super) fn read(
        payload: &[u8],
        settings: &OidcSettings,
        now: Timestamp,
    ) -> Result<Self, TokenError> {
        let claims: Map<String, Value> =
            serde_json::from_slice(payload).map_err(|_| TokenError::Malformed)?;
        if claims.get("iss").and_then(Value::as_str) != Some(settings.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        if !words(claims.get("aud"), |text| vec![text]).contains(&settings.audience.as_str()) {
            return Err(TokenError::Audience);
        }
        let expires_at = instant(&claims, "exp")?.ok_or(TokenError::MissingClaim("exp"))?;
        if now >= expires_at.after(LEEWAY) {
            return Err(TokenError::Expired);
        }
        let (issued_at, not_before) = (instant(&claims, "iat")?, instant(&claims, "nbf")?);
        if issued_at.max(not_before).is_some_and(|from| from > now.after(LEEWAY)) {
            return Err(TokenError::NotYetValid);
        }
        let last_moment = match issued_at.or(not_before) {
            Some(issued_at) => issued_at.after(settings.lifetime_max),
            None if expires_at > now.after(settings.lifetime_max) => {
                return Err(TokenError::MissingClaim("iat"));
            }
            None => expires_at,
        };
        if now >= last_moment.after(LEEWAY) {
            return Err(TokenError::TooOld);
        }
        Ok(Self {
            subject: subject(&claims)?,
            tenant: tenant(claims.get(&settings.tenant_claim)),
            scopes: scopes(claims.get(&settings.scope_claim), &settings.scope_prefix),
            expires_at: expires_at.min(last_moment),
        })
    }
}

fn subject(claims: &Map<String, Value>) -> Result<String, TokenError> {
    let subject = claims.get("sub").and_then(Value::as_str);
    let is_valid = |text: &&str| {
        (1..=SUBJECT_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
    };
    Ok(subject.filter(is_valid).ok_or(TokenError::MissingClaim("sub"))?.to_owned())
}

fn tenant(claim: Option<&Value>) -> Option<TenantId> {
    TenantId::new(claim?.as_str()?).ok()
}

/// Returns Longhaul's scopes; others belong to other services and are ignored.
fn scopes(claim: Option<&Value>, prefix: &str) -> Scopes {
    let ours = |word: &str| word.strip_prefix(prefix).and_then(Scope::parse);
    words(claim, |text| text.split(' ').collect()).into_iter().filter_map(ours).collect()
}

/// Returns a claim that is a list of strings, or a string that `split` turns into one.
fn words<'a>(claim: Option<&'a Value>, split: impl Fn(&'a str) -> Vec<&'a str>) -> Vec<&'a str> {
    match claim {
        Some(Value::String(text)) => split(text),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Vec::new()
        }
    }
}

/// Parses seconds since 1970, possibly with a fraction.
fn instant(
    claims: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<Timestamp>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let millis = match (value.as_i64(), value.as_f64()) {
        (Some(seconds), _) => seconds.saturating_mul(1_000),
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        (None, Some(seconds)) => (seconds * 1_000.0) as i64,
        (None, None) => return Err(TokenError::MissingClaim(name)),
    };
    Ok(Some(Timestamp::from_millis(millis)))
}
