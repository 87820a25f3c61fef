//! Whose tokens are good beside keys.

use super::check::Check;
use super::error::ConfigError;
use super::value::Entry;
use crate::auth::{OidcSettings, parse_url};

/// The inner `None` is nobody's.
#[expect(clippy::option_option, reason = "wrong, none and one are three things")]
pub(super) fn oidc(check: &mut Check) -> Option<Option<OidcSettings>> {
    let issuer = check.read("oidc.issuer", |entry, key| match opt_url(entry, key)? {
        // Its /.well-known/… is found by adding to it.
        Some(url) if url.contains('?') => Err(entry.wrong(key, "an address without a '?'")),
        url => Ok(url),
    });
    let is_on = matches!(issuer, Some(Some(_)));
    let audience = check.read("oidc.audience", |entry, key| match entry.text(key)? {
        "" if is_on => {
            let why = "without it a token that the issuer made for any other service would be good \
                       here; set it to what the issuer calls this one";
            Err(entry.refused(key, why))
        }
        text => Ok(text.to_owned()),
    });
    let tenant_claim = check.read("oidc.tenant_claim", claim);
    let scope_claim = check.read("oidc.scope_claim", claim);
    let scope_prefix =
        check.read("oidc.scope_prefix", |entry, key| entry.text(key).map(str::to_owned));
    let jwks_url = check.read("oidc.jwks_url", opt_url);
    let (audience, tenant_claim, scope_claim) = (audience?, tenant_claim?, scope_claim?);
    let (scope_prefix, jwks_url) = (scope_prefix?, jwks_url?);
    Some(issuer?.map(|issuer| OidcSettings {
        issuer,
        audience,
        tenant_claim,
        scope_claim,
        scope_prefix,
        jwks_url,
    }))
}

/// As it was written: issuers are compared letter by letter.
fn opt_url(entry: &Entry, key: &str) -> Result<Option<String>, ConfigError> {
    match entry.text(key)? {
        "" => Ok(None),
        text => match parse_url(text) {
            Ok(_) => Ok(Some(text.to_owned())),
            Err(why) => Err(entry.refused(key, why)),
        },
    }
}

fn claim(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    match entry.text(key)? {
        "" => Err(entry.wrong(key, "a claim's name")),
        text => Ok(text.to_owned()),
    }
}
