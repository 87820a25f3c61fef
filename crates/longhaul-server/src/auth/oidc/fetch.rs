//! Asks an issuer for its keys.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde::Deserialize;

use super::OidcSettings;
use super::jwk::KeySet;

/// For one answer, from the first byte sent to the last one read.
const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;
const REDIRECTS_MAX: usize = 3;

/// Where an issuer's keys are found.
#[derive(Debug)]
pub(super) struct Source {
    http: Client,
    issuer: String,
    jwks_url: Option<Url>,
}

/// What an issuer says about itself, as far as we ask.
#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, String> {
        let jwks_url = settings.jwks_url.as_deref().map(parse_url).transpose()?;
        // Whoever embeds us may have installed a provider already, and theirs is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::custom(redirected))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let used = jwks_url.as_ref().map_or(settings.issuer.as_str(), Url::as_str);
        if used.starts_with("http://") {
            // On this machine: no proxy leads there, and there may be no root certificates either.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| with_sources(&error))?;
        Ok(Self { http, issuer: settings.issuer.clone(), jwks_url })
    }

    /// The keys as they are now.
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
        let found: Discovered =
            serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))?;
        // Else one issuer could have its tokens taken for another's.
        if found.issuer != self.issuer {
            return Err(format!("{url} is of the issuer {:?}, not of this one", found.issuer));
        }
        parse_url(&found.jwks_uri)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, String> {
        let sent = self.http.get(url.clone()).send().await;
        let mut answer = sent.map_err(|error| with_sources(&error))?;
        if !answer.status().is_success() {
            return Err(format!("{url} answers {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| with_sources(&error))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(format!("{url} answers with more than {ANSWER_BYTES_MAX} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// An address that keys may come from: whoever could change them on their way could sign tokens.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("it is no address: {error}"))?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(&url),
        _ => false,
    };
    if is_plain && is_safe && url.fragment().is_none() {
        Ok(url)
    } else {
        Err("it must be https://…, or http:// on this machine's own 127.0.0.1, [::1] or localhost, \
             without a name and password"
            .to_owned())
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// To the same host alone: what another one says is not what this issuer says.
fn redirected(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_same =
        attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if is_same && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.error("it redirects to another host, or too often")
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
