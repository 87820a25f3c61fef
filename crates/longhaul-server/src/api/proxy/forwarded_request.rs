//! Conversion of a gateway request to the request that its job sends. Pure.

use axum::http::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_kinds::http::headers::{remove_connection_headers, to_fields};
use longhaul_kinds::http::{HeaderField, HttpCall, check_path};

use super::ProxyRoute;
use crate::api::http::idempotency::IDEMPOTENCY_KEY;
use crate::api::http::prefer::PREFER;
use crate::auth::{Auth, X_API_KEY};
use crate::listen::ClientInfo;
use crate::problem::{Code, Problem, Result};

const FORWARDED_PREFIX: &str = "x-forwarded-";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) struct ForwardedRequest {
    /// The request without its body and secret headers.
    pub(super) call: HttpCall,
    /// Headers that must not be readable in the job's input.
    pub(super) secret: Vec<HeaderField>,
    /// `?mode=sync` or `?mode=async`, if given.
    pub(super) sync: Option<bool>,
}

impl ForwardedRequest {
    pub(super) fn parse(route: &ProxyRoute, parts: &Parts, auth: &Auth) -> Result<Self> {
        let path = parts.uri.path().strip_prefix(route.path.as_str()).unwrap_or_default();
        check_path(path).map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
        let (query, sync) = without_mode(parts.uri.query().unwrap_or_default());
        let mut headers = parts.headers.clone();
        let host = headers.get(HOST).cloned();
        remove_connection_headers(&mut headers);
        for ours in [PREFER, X_API_KEY, IDEMPOTENCY_KEY] {
            headers.remove(ours);
        }
        if auth.is_own_credential(&parts.headers) {
            headers.remove(AUTHORIZATION);
        }
        let secret = take_secret(&mut headers, &route.pass);
        set_forwarded(&mut headers, parts.extensions.get::<ClientInfo>(), host);
        let call = HttpCall {
            method: Some(parts.method.to_string()),
            path: (!path.is_empty()).then(|| path.to_owned()),
            query: (!query.is_empty()).then_some(query),
            headers: to_fields(&headers),
            ..HttpCall::default()
        };
        Ok(Self { call, secret, sync })
    }
}

/// Removes the secret headers and returns those that are forwarded sealed.
fn take_secret(headers: &mut HeaderMap, pass: &[HeaderName]) -> Vec<HeaderField> {
    let mut secret = HeaderMap::new();
    for name in pass {
        let values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
        headers.remove(name);
        for value in values {
            secret.append(name, value);
        }
    }
    for name in [AUTHORIZATION, COOKIE] {
        headers.remove(name);
    }
    to_fields(&secret)
}

/// Replaces the forwarding headers, because those of a caller are not trustworthy.
fn set_forwarded(headers: &mut HeaderMap, client: Option<&ClientInfo>, host: Option<HeaderValue>) {
    let untrusted: Vec<HeaderName> = headers
        .keys()
        .filter(|name| **name == FORWARDED || name.as_str().starts_with(FORWARDED_PREFIX))
        .cloned()
        .collect();
    for name in untrusted {
        headers.remove(name);
    }
    if let Some(client) = client {
        if let Ok(address) = HeaderValue::from_str(&client.address.to_string()) {
            headers.insert(FORWARDED_FOR, address);
        }
        let scheme = HeaderValue::from_static(client.scheme.as_str());
        headers.insert(FORWARDED_PROTO, scheme);
    }
    if let Some(host) = host {
        headers.insert(FORWARDED_HOST, host);
    }
}

/// Removes `mode` from the query; the last one counts. All other parameters are kept verbatim.
fn without_mode(query: &str) -> (String, Option<bool>) {
    let mut sync = None;
    let others = query.split('&').filter(|pair| match *pair {
        "mode=sync" => {
            sync = Some(true);
            false
        }
        "mode=async" => {
            sync = Some(false);
            false
        }
        _ => true,
    });
    let others: Vec<&str> = others.collect();
    (others.join("&"), sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_removed_from_a_gateway_query() {
        for (query, rest, sync) in [
            ("", "", None),
            ("mode=sync", "", Some(true)),
            ("a=1&mode=async&b=%20", "a=1&b=%20", Some(false)),
            ("mode=fast&xmode=sync&&c", "mode=fast&xmode=sync&&c", None),
        ] {
            assert_eq!(without_mode(query), (rest.to_owned(), sync), "{query}");
        }
    }

    #[test]
    fn what_callers_say_of_themselves_is_said_anew() {
        let mut headers = HeaderMap::new();
        for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-evil"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1.2.3.4"));
        }
        let client = ClientInfo {
            address: "192.0.2.7".parse().unwrap(),
            scheme: crate::listen::Scheme::Https,
        };
        set_forwarded(&mut headers, Some(&client), Some(HeaderValue::from_static("jobs.example")));
        let mut said = to_fields(&headers);
        said.sort_by(|HeaderField(one, _), HeaderField(other, _)| one.cmp(other));
        let said: Vec<(&str, &str)> =
            said.iter().map(|HeaderField(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(
            said,
            [
                ("x-forwarded-for", "192.0.2.7"),
                ("x-forwarded-host", "jobs.example"),
                ("x-forwarded-proto", "https"),
            ]
        );
    }
}
