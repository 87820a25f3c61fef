//! HTTP client for an issuer's discovery document and keys.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde::Deserialize;

use super::OidcSettings;
use super::jwk::KeySet;

/// Time limit of one request, including the response body.
const TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_BYTES_MAX: usize = 1 << 20;
const REDIRECTS_MAX: usize = 3;

/// Fetches an issuer's keys.
#[derive(Debug)]
pub(super) struct IssuerClient {
    http: Client,
    issuer: String,
    jwks_url: Option<Url>,
}

/// The fields used of the issuer's discovery document.
#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl IssuerClient {
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, String> {
        let jwks_url = settings.jwks_url.as_deref().map(parse_url).transpose()?;
        // An embedding program may have installed a provider already; any will do.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::custom(same_origin_redirect))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let used = jwks_url.as_ref().map_or(settings.issuer.as_str(), Url::as_str);
        if used.starts_with("http://") {
            // Loopback only: needs no proxy and no root certificates.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| with_sources(&error))?;
        Ok(Self { http, issuer: settings.issuer.clone(), jwks_url })
    }

    /// Fetches the current keys.
    pub(super) async fn keys(&self) -> Result<KeySet, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let body = self.get(url.clone()).await?;
        KeySet::parse(&body).map_err(|error| format!("{url}: {error}"))
    }

    async fn discover(&self) -> Result<Url, String> {
        let base = self.issuer.trim_end_matches('/');
        let url = parse_url(&format!("{base}/.well-known/openid-configuration"))?;
        let body = self.get(url.clone()).await?;
        let found: DiscoveryDocument =
            serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))?;
        // Otherwise one issuer's tokens could be accepted as another's.
        if found.issuer != self.issuer {
            return Err(format!("{url} belongs to another issuer: {:?}", found.issuer));
        }
        parse_url(&found.jwks_uri)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, String> {
        let response = self.http.get(url.clone()).send().await;
        let mut response = response.map_err(|error| with_sources(&error))?;
        if !response.status().is_success() {
            return Err(format!("{url} responded {}", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| with_sources(&error))? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(format!("the response of {url} exceeds {RESPONSE_BYTES_MAX} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Parses a URL for keys. Requires TLS or loopback, because an attacker who could change the keys on their way
/// could sign tokens.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(&url),
        _ => false,
    };
    if is_plain && is_safe && url.fragment().is_none() {
        Ok(url)
    } else {
        Err("must be https://…, or http:// on 127.0.0.1, [::1] or localhost, without user name and password"
            .to_owned())
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Follows redirects within the same origin only, because another host is not this issuer.
fn same_origin_redirect(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_same =
        attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if is_same && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.error("redirects to another host, or too often")
    }
}

fn with_sources(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        write!(text, ": {cause}").ok();
        source = cause.source();
    }
    text
}
